// Package installer is what a control plane offers to a machine that is not enrolled yet: the one-line
// install script, the builds of interlock for four platforms, the manifest that lets the script check
// them, and the text of the line itself.
//
// It serves nothing and enrolls nothing: the server puts the assets behind its routes, and the script
// hands over to `interlock agent enroll` as soon as the program stands on the machine.
package installer
