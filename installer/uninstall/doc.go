// Package uninstall knows what an agent has on a machine: what goes when it is uninstalled, what stays,
// and how to take it away so that a run that broke off can be finished by the next.
//
// It looks only where the agent puts things and removes only what it listed before. It stops nothing and
// touches no service: whoever calls Remove has ended the programs first. Shared model files always stay;
// so does everything in the home folder that no version of the agent has written.
package uninstall
