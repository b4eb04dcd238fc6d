package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/fleet"
)

func (a *app) agentHoursCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "hours [always|night|window|paused]", Short: "Show or set when this machine may work, and its other limits", Args: cobra.MaximumNArgs(1),
		Long: "Show or set when this machine may work: always, at night (22:00–07:00), in windows of your own, or not at all.\n" +
			"Times are this machine's local time. What is not named stays as it is. The hours are a ceiling: nothing that\n" +
			"the control plane wants goes beyond them. Work that is not done within the grace after they end goes back.",
		Example: "  interlock agent hours\n" +
			"  interlock agent hours night --on-mains\n" +
			"  interlock agent hours window --start 20:00 --end 08:00 --days mon-fri\n" +
			"  interlock agent hours window --span 'mon-fri 20:00-08:00' --span 'sat,sun 10:00-18:00'\n" +
			"  interlock agent hours --bandwidth 09:00-17:00=1MiB\n" +
			"  interlock agent hours always --all",
	}
	en, asJSON := enrolledFlags(cmd), jsonFlag(cmd)
	f := cmd.Flags()
	all := f.Bool("all", false, "every group and role of this machine")
	var c hoursChange
	f.StringVar(&c.start, "start", "", "of the window, as in 22:00")
	f.StringVar(&c.end, "end", "", "of the window, as in 07:00; before the start it is the next day")
	f.StringVar(&c.days, "days", "", "on which the window starts, as in mon,tue or mon-fri (every day)")
	f.StringArrayVar(&c.spans, "span", nil, "a window with its days, as in 'mon-fri 20:00-08:00'; repeatable")
	f.BoolVar(&c.onMains, "on-mains", false, "only on mains power; --on-mains=false lifts it")
	f.IntVar(&c.idle, "idle-minutes", 0, "only when nobody used the machine for so long; 0 lifts it")
	f.StringArrayVar(&c.bandwidth, "bandwidth", nil, "limit downloads in a part of the day, as in 09:00-17:00=1MiB (a second; 0 stops them); repeatable; none lifts all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		mode := ""
		if len(args) == 1 {
			mode = args[0]
		}
		change, err := c.change(mode, f.Changed)
		if err != nil {
			return err
		}
		if change == nil {
			return a.showHours(cmd.Context(), en, *asJSON)
		}
		var out []agentHours
		err = a.eachAgent(en, *all, func(e enrollment.Enrollment, door *localapi.Client) error {
			st, err := knowsHours(cmd.Context(), door)
			if err != nil {
				return err
			}
			want := st.Wish.Availability
			change(&want)
			if st, err = door.SetAvailability(cmd.Context(), want); err != nil {
				return err
			}
			out = append(out, hoursOf(st))
			if !*asJSON {
				a.say("group %s, role %s: %s; now %s", clean(e.GroupName), e.Role, clean(st.Wish.String()), clean(st.Words))
				a.warnings(st)
			}
			return nil
		})
		if *asJSON && len(out) > 0 {
			if errJSON := a.printJSON(map[string]any{"hours": out}); errJSON != nil {
				return errJSON
			}
		}
		return err
	}
	return cmd
}

// agentHours is one agent in a listing of hours.
type agentHours struct {
	Group     string        `json:"group"`
	GroupName string        `json:"groupName"`
	Role      fleet.Role    `json:"role"`
	Wish      localapi.Wish `json:"wish"`
	Hours     fleet.Hours   `json:"hours"`
	Words     string        `json:"words"`
	Warnings  []string      `json:"warnings,omitempty"`
	Error     string        `json:"error,omitempty"`
}

func hoursOf(st localapi.Status) agentHours {
	return agentHours{Group: st.Group, GroupName: st.GroupName, Role: st.Role, Wish: st.Wish, Hours: st.Hours, Words: st.Words, Warnings: st.Report.Warnings, Error: st.LastError}
}

func (a *app) showHours(ctx context.Context, en *enrolled, asJSON bool) error {
	all, none, err := en.survey()
	if err := cmp.Or(err, none); err != nil {
		return err
	}
	var out []agentHours
	var rows [][]string
	var agents []localapi.Status
	for _, e := range all {
		st := statusHere(ctx, e)
		h := hoursOf(st)
		out, agents = append(out, h), append(agents, st)
		rows = append(rows, []string{h.GroupName + "/" + string(h.Role), h.allowed(), h.Words, h.next()})
	}
	if asJSON {
		return a.printJSON(map[string]any{"hours": some(out)})
	}
	a.table([]string{"GROUP/ROLE", "MAY WORK", "NOW", "NEXT"}, rows)
	for i, h := range out {
		switch {
		case h.Error != "":
			a.note("%s/%s: %s", clean(h.GroupName), h.Role, clean(h.Error))
		case h.Hours.Mode == "":
			a.note("%s/%s: the agent that runs is older than hours: interlock agent start lets this one take its place", clean(h.GroupName), h.Role)
		}
		a.warnings(agents[i])
	}
	return nil
}

// allowed is what the owner set, in words.
func (h agentHours) allowed() string {
	if h.Hours.Mode == "" {
		return "—" // it does not run, or is older than hours
	}
	return h.Wish.String()
}

// next is what the clock does next.
func (h agentHours) next() string {
	switch {
	case h.Hours.Next == nil:
		return "—"
	case h.Hours.Open:
		return fmt.Sprintf("ends %s", h.Hours.Next.Format("Mon 15:04"))
	default:
		return fmt.Sprintf("starts %s", h.Hours.Next.Format("Mon 15:04"))
	}
}
