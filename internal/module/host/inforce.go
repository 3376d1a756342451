package host

import (
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/internal/module/program"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// InForce returns how this server runs programs; nil if it has no directories of modules. Call it
// after Open.
func (h *Host) InForce() *sluice.ModuleHost {
	if len(h.opts.Dirs) == 0 {
		return nil
	}
	missing := slices.DeleteFunc(program.Known(), func(name string) bool { return slices.Contains(h.restrictions, name) })
	root := h.opts.User == nil && os.Geteuid() == 0
	return &sluice.ModuleHost{
		User: userName(h.opts.User), Restrictions: h.restrictions, Missing: missing, Problem: problemOf(missing, root),
	}
}

// userName returns the name of the user that programs run as; nil is the server's own user.
func userName(as *program.User) string {
	if as != nil {
		return as.Name
	}
	is, err := user.Current()
	if err != nil { // it has no name
		return strconv.Itoa(os.Geteuid())
	}
	return is.Username
}

// problemOf describes the missing restrictions that are dangerous, with the remedy; "" if there are
// none. Programs of a server that runs as root are root on the machine. Without Landlock and
// seccomp, programs can read all files of their user and send them anywhere.
func problemOf(missing []string, root bool) string { //nolint:revive // it is a property of the server
	if len(missing) == len(program.Known()) {
		return "programs of modules run on Linux only"
	}
	var all []string
	if root {
		all = append(all, "programs run as root: set modules.user")
	}
	if slices.Contains(missing, program.LandlockFiles) {
		all = append(all, "programs can read and write all files of their user: this kernel has no Landlock; use Linux 5.13 or later, with landlock in its parameter lsm")
	}
	if slices.Contains(missing, program.SeccompNetwork) {
		all = append(all, "programs can make connections: this kernel has no seccomp filters; use one with CONFIG_SECCOMP_FILTER")
	}
	return strings.Join(all, "; ")
}

// sayInForce logs the user and the restrictions with which programs run.
func (h *Host) sayInForce() {
	is, log := h.InForce(), h.opts.Log.Info
	attrs := []any{
		slog.String("user", is.User), slog.String("in_force", strings.Join(is.Restrictions, ", ")), slog.String("missing", strings.Join(is.Missing, ", ")),
	}
	if is.Problem != "" {
		log = h.opts.Log.Warn
		attrs = append(attrs, slog.String("problem", is.Problem))
	}
	log("programs of modules", attrs...)
}
