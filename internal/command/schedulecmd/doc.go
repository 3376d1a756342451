// Package schedulecmd has the commands that publish events later: scheduled events, appointments and watches.
package schedulecmd
