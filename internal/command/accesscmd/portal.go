package accesscmd

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// PortalCmd manages access to the tenants' portal.
type PortalCmd struct {
	Link portalLinkCmd `cmd:"" help:"Create a link that opens the portal once, as the holder of a grant."`
}

// portalLinkCmd creates a link for Grant, or for Principal with Object. The server checks that Next
// is a path of the portal.
type portalLinkCmd struct {
	Grant     string         `help:"Grant that the session derives from." placeholder:"ID" required:"" xor:"for"`
	Principal string         `help:"Principal whose grant is found, or issued for 90 days." placeholder:"PRINCIPAL" required:"" xor:"for"`
	Object    *sluice.Object `help:"With --principal, object of the grant: scope:NAMESPACE or path:NAMESPACE/PATTERN." placeholder:"OBJECT"`
	TTL       time.Duration  `name:"ttl" help:"Lifetime of the session; 1m to 24h." default:"1h"`
	LinkTTL   time.Duration  `name:"link-ttl" help:"How long the link can be used; 1s to 10m." default:"5m"`
	Next      string         `help:"Where the portal begins: a path of its own, such as /portal/attempts." placeholder:"PATH"`
	Open      bool           `help:"Open the link in the browser of this machine."`
}

// Help names the rights and the end of the session.
func (*portalLinkCmd) Help() string {
	return "The session has the verbs read and subscribe, as far as the grant has them. It ends with the grant, or when the session is revoked: sluice grant revoke."
}

// Run creates the link. The link is a secret until it is used: stdout has the URL only, and the
// explanation goes to stderr. A server without a public URL returns a path, which is completed with
// the address that this command uses. Codes NotFound; Forbidden; Conflict if the grant has ended;
// CapabilityRequired; QuotaExceeded. The request is not retried.
func (c *portalLinkCmd) Run(ctx context.Context, s *terminal.Session) error {
	switch {
	case c.TTL <= 0 || c.LinkTTL <= 0:
		return terminal.Usagef("--ttl and --link-ttl: write durations, such as 1h")
	case (c.Principal != "") != (c.Object != nil):
		return terminal.Usagef("--principal and --object belong together; --grant needs neither")
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	link, err := api.PortalLink(ctx, client.PortalLinkSpec{
		Grant: c.Grant, Principal: sluice.Principal(c.Principal), Object: c.Object,
		TTL: sluice.Duration(c.TTL), LinkTTL: sluice.Duration(c.LinkTTL), Next: c.Next,
	})
	if err != nil {
		return err
	}
	if strings.HasPrefix(link.URL, "/") {
		base, err := s.Address()
		if err != nil {
			return err
		}
		link.URL = strings.TrimSuffix(base, "/") + link.URL
	}
	if err := s.Show(link, func() error {
		s.Complain("Opens once until %s, as %s (%s) until %s", terminal.FormatTime(link.ExpiresAt), link.Principal, verbs(link.Verbs), terminal.FormatTime(link.SessionExpiresAt))
		return s.Say("%s", link.URL)
	}); err != nil || !c.Open {
		return err
	}
	return browse(ctx, link.URL)
}

// browse opens a web page in the browser of this machine. It waits for the program that opens it,
// and refuses other schemes, which could start other programs.
func browse(ctx context.Context, url string) error {
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return fmt.Errorf("--open: %s is no web page", url)
	}
	program := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		program = []string{"open"}
	case "windows":
		program = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	if err := exec.CommandContext(ctx, program[0], append(program[1:], url)...).Run(); err != nil { //nolint:gosec // the server's URL, as an argument
		return fmt.Errorf("--open: no browser was opened; use the link above: %w", err)
	}
	return nil
}
