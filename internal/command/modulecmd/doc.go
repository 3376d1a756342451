// Package modulecmd is the command module: modules on this machine and on the server, their checks and their approval.
package modulecmd
