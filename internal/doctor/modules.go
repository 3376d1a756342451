package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// checkModules looks for modules that do not run, and for restrictions of programs that a server
// does not enforce. It notes nothing if the server has no directories of modules.
func (e *examination) checkModules(ctx context.Context) {
	token, err := e.session.BearerToken()
	if e.api == nil || err != nil {
		return // other checks say so
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	api, err := e.session.ClientOf(e.addresses.HTTP, token)
	var all sluice.ModuleList
	if err == nil {
		all, err = api.Modules(ctx)
	}
	switch {
	case sluice.CodeOf(err) == sluice.CapabilityRequired:
		e.note("modules", "skip", "requires the token of an admin of everything")
	case err != nil:
		e.note("modules", "fail", "%v", err)
	case all.Host != nil:
		e.noteModules(&all)
	}
}

// noteModules warns of modules that are changed, unsafe, invalid or missing. Found and disabled
// ones are no problem.
func (e *examination) noteModules(all *sluice.ModuleList) {
	var ill []string
	for _, m := range all.Modules {
		if !slices.Contains([]sluice.ModuleState{sluice.ModuleApproved, sluice.ModuleDisabled, sluice.ModuleFound}, m.State) {
			ill = append(ill, fmt.Sprintf("%s (%s)", m.Name, m.State))
		}
	}
	if len(ill) > 0 {
		e.note("modules", "warn", "%d of %d: %s; see sluice module show NAME", len(ill), len(all.Modules), some(ill))
	}
	if all.Host.Problem != "" {
		e.note("modules", "warn", "%s", all.Host.Problem)
	}
	if len(ill) == 0 && all.Host.Problem == "" {
		e.note("modules", "ok", "none of %d is changed, unsafe, invalid or missing; %s", len(all.Modules), all.Host)
	}
}
