package cli

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"interlock.sh/agent"
	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
)

// agentModeCmd pauses, drains or resumes by hand, beside the hours.
func (a *app) agentModeCmd(verb, short string, mode fleet.Mode) *cobra.Command {
	cmd := &cobra.Command{Use: verb, Short: short, Args: cobra.NoArgs}
	en := enrolledFlags(cmd)
	all := cmd.Flags().Bool("all", false, "every group and role of this machine")
	d := time.Duration(0)
	if mode == fleet.Paused {
		cmd.Flags().DurationVar(&d, "for", 0, "go on by itself after this time, as in 1h; up to a week")
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if d < 0 || cmd.Flags().Changed("for") && d < time.Minute {
			return usage("--for is a length of time of a minute or more, as in 1h")
		}
		return a.eachAgent(en, *all, func(e enrollment.Enrollment, door *localapi.Client) error {
			var st localapi.Status
			var err error
			switch {
			case mode != fleet.Paused:
				st, err = door.SetOwner(cmd.Context(), mode)
			default:
				if d > 0 {
					if _, err := knowsHours(cmd.Context(), door); err != nil {
						return err // it would pause for good
					}
				}
				st, err = door.Pause(cmd.Context(), d)
			}
			if err != nil {
				return err
			}
			a.say("group %s, role %s: %s", clean(e.GroupName), e.Role, clean(st.Words))
			return nil
		})
	}
	return cmd
}

// eachAgent does something with the agent that is meant, or with all of this machine: one that refuses
// keeps nobody else from it.
func (a *app) eachAgent(en *enrolled, all bool, do func(enrollment.Enrollment, *localapi.Client) error) error {
	if !all {
		door, e, err := en.door()
		if err != nil {
			return err
		}
		return do(e, door)
	}
	if en.group != "" || en.role != "" {
		return usage("--all is every group and role: leave --group and --role out")
	}
	found, none, err := en.survey()
	if err := cmp.Or(err, none); err != nil {
		return err
	}
	failed := false
	for _, e := range found {
		door, err := agent.Door(e.Enrollment)
		if err == nil {
			err = do(e.Enrollment, door)
		}
		if e.Why != nil {
			a.note("group %s, role %s: %s", clean(e.GroupName), e.Role, clean(e.Why.Error()))
		}
		if err != nil {
			failed = true
			a.note("group %s, role %s: %s", clean(e.GroupName), e.Role, clean(err.Error()))
		}
	}
	if failed {
		return &exit{ExitError}
	}
	return nil
}

// knowsHours is the agent's status, or the refusal of an agent from before there were hours.
func knowsHours(ctx context.Context, door *localapi.Client) (localapi.Status, error) {
	st, err := door.Status(ctx)
	if err == nil && !st.KnowsHours() {
		err = fault.New(fault.Conflict, "the agent that runs is of version %s, which keeps no hours", st.Version).
			WithHint("let a newer one take its place: interlock agent start")
	}
	return st, err
}
