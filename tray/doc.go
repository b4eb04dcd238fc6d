// Package tray is what Nightshift, the menu-bar app, shows and offers: the snapshot of this machine's
// agents, the words for it, and the menu as a tree of items with their actions. It is pure: it draws
// nothing, asks nobody and knows no desktop. The folders below it do each one of these:
//
//	agents     finds the agents of this machine and talks to them
//	menubar    the running app: snapshot → menu, click → action
//	bar        draws a menu in the menu bar
//	window     draws the window
//	icon       the pictures of the bar
//	desktop    what the app asks of the desktop and of the installed programs
//	autostart  starts the app at login
//	single     one app a user
package tray
