package pages

import (
	"errors"
	"strings"
	"time"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/tui/components"
	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

// Loading stands in place of a page until its data was read for the first time.
func Loading(style look.Style, what, server string, w, h int) string {
	return components.Panel(style, look.MarkWork, "Reading "+what+" …", []components.Step{components.Say("from " + server)}, w, h)
}

// Failure stands in place of a page whose data could not be read: what is wrong, and the way out.
func Failure(style look.Style, what, server string, err error, retry time.Duration, w, h int) string {
	why := []components.Step{components.Say(message(err))}
	if h := hint(err); h != "" {
		why = append(why, components.Say(h))
	}
	why = append(why, components.Say(""))
	again := components.Say("This tries again every " + text.Duration(retry) + "; ctrl+r tries now, q leaves.")
	switch fault.CodeOf(err) {
	case fault.Unauthenticated, fault.Revoked:
		return components.Panel(style, look.MarkBad, "Not logged in to "+server, append(why,
			components.Say("Log in, then start interlock-tui again:"),
			components.Run("interlock login --api "+server)), w, h)
	case fault.ScopeDenied:
		return components.Panel(style, look.MarkBad, "This credential may not read "+what, append(why,
			components.Say("The dashboard wants an account's login; see what you are, then log in:"),
			components.Run("interlock whoami"),
			components.Run("interlock login --api "+server)), w, h)
	case fault.Unavailable, fault.CaptivePortal:
		return components.Panel(style, look.MarkBad, "No connection to "+server, append(why, again), w, h)
	}
	return components.Panel(style, look.MarkBad, "Cannot read "+what, append(why, again), w, h)
}

func message(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Message
	}
	return err.Error()
}

func hint(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Hint
	}
	return ""
}

// NoMachines stands in place of an empty fleet: how to register a group, and what to paste where.
func NoMachines(style look.Style, groups []fleet.Group, server string, w, h int) string {
	steps := []components.Step{}
	name := "my-model"
	if len(groups) == 0 {
		steps = append(steps,
			components.Say("1  Register a model group, from the folder of your model project:"),
			components.Run("interlock models register --dir my-model"),
			components.Say(""),
			components.Say("2  Paste the line that it prints on a machine. It looks like this:"))
	} else {
		name = text.Clean(groups[0].Name)
		steps = append(steps,
			components.Say("1  Get a line for group "+name+", with a fresh key in it:"),
			components.Run("interlock models key rotate client --group "+shellWord(name)),
			components.Say(""),
			components.Say("2  Paste it on a machine. It looks like this:"))
	}
	steps = append(steps,
		components.Run("export INTERLOCK_MODEL_KEY='<client-key>'"),
		components.Run(`curl -fsSL `+server+`/assets/install-model-host.sh | sh -s -- \`),
		components.Run(`  --url `+server+` --group `+shellWord(name)+` --role client`),
		components.Run(`unset INTERLOCK_MODEL_KEY`),
		components.Say(""),
		components.Say("The machine shows here by itself, seconds later."))
	return components.Panel(style, look.MarkRest, "No machine is enrolled yet", steps, w, h)
}

// noModel stands in place of a conversation when nothing is deployed.
func noModel(style look.Style, w, h int) string {
	return components.Panel(style, look.MarkRest, "No machine runs a model yet", []components.Step{
		components.Say("Upload the weights as a release, then deploy it under a name:"),
		components.Run("interlock models release create --help"),
		components.Run("interlock models deploy --help"),
		components.Say(""),
		components.Say("The machines of the group fetch and load it; page 1 shows how far they are."),
	}, w, h)
}

// shellWord quotes a name for a shell, unless it is plain.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
