package accesscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// GrantCmd manages grants and their tokens.
type GrantCmd struct {
	Create grantCreateCmd `cmd:"" help:"Issue a grant and print its token once."`
	LS     grantLsCmd     `cmd:"" name:"ls" help:"List the grants visible to you, newest first."`
	Show   grantShowCmd   `cmd:"" help:"Show a grant, without its token."`
	Renew  grantRenewCmd  `cmd:"" help:"Renew a grant: issue a new token, printed once, and optionally a new expiry. The old token becomes invalid."`
	Revoke grantRevokeCmd `cmd:"" help:"Revoke grants and all grants derived from them, permanently."`
	Verify grantVerifyCmd `cmd:"" help:"Verify a token and its permissions."`
}

// end holds the flags for the end of a grant. The server bounds it by 90 days and, for a derived
// grant, by the end of its parent.
type end struct {
	For   time.Duration `help:"Lifetime, such as 30d or 12h; at most 90d." placeholder:"30d" xor:"end"`
	Until time.Time     `help:"Expiry time (RFC 3339)." placeholder:"TIME" xor:"end"`
}

// time returns the end; the zero time if no flag gives one.
func (e end) time(now time.Time) (time.Time, error) {
	if e.For < 0 {
		return time.Time{}, terminal.Usagef("--for %s: write a duration, such as 30d", e.For)
	}
	if e.For == 0 {
		return e.Until, nil
	}
	return now.Add(e.For), nil
}

// printing selects a token's output form.
type printing struct {
	TokenOnly bool `name:"token-only" help:"Print only the token."`
}

// minted prints a grant with its token. --token-only wins over -o, so that a shell can assign it.
func (p printing) minted(s *terminal.Session, m client.Minted, done string) error {
	if p.TokenOnly {
		return s.Say("%s", m.Token)
	}
	return s.Show(m, func() error {
		return s.Say("%s grant %s: %s may %s %s until %s\n\nThe token is not shown again; send it as bearer token or set it as SLUICE_TOKEN:\n\n  %s\n",
			done, m.ID, m.Principal, verbs(m.Verbs), m.Object, terminal.FormatTime(m.ExpiresAt), m.Token)
	})
}

type grantCreateCmd struct {
	end
	printing

	Principal   string        `arg:"" help:"Holder: user:NAME, ai_agent:NAME, service:NAME or system:NAME."`
	Object      sluice.Object `arg:"" help:"Object: scope:NAMESPACE, path:NAMESPACE/PATTERN, entity:NAMESPACE/URI, or * for everything."`
	Verbs       []sluice.Verb `help:"Verbs: read, publish, subscribe, mirror, admin (includes the others)." placeholder:"VERB" required:""`
	OnBehalfOf  string        `name:"on-behalf-of" help:"Principal whose access lists and clearance also apply." placeholder:"PRINCIPAL"`
	Description string        `help:"Description." placeholder:"TEXT"`
}

// Help explains the limits of a grant.
func (*grantCreateCmd) Help() string {
	return "Unless you are root, the grant derives from yours: it cannot exceed your verbs, paths or expiry, and ends with your grant."
}

// Run issues the grant. The request is not retried: a retry could issue a second grant whose token
// is lost. Code CapabilityRequired if the grant exceeds that of the caller.
func (c *grantCreateCmd) Run(ctx context.Context, s *terminal.Session) error {
	until, err := c.time(time.Now())
	if err != nil {
		return err
	}
	if until.IsZero() {
		return terminal.Usagef("set a lifetime: --for 30d, or --until with a time")
	}
	who, err := sluice.ParsePrincipal(c.Principal)
	if err != nil {
		return terminal.Usage(err)
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	m, err := api.MintGrant(ctx, client.GrantSpec{
		Principal: who, Verbs: c.Verbs, Object: c.Object, ExpiresAt: until,
		OnBehalfOf: sluice.Principal(c.OnBehalfOf), Description: c.Description,
	})
	if err != nil {
		return err
	}
	return c.minted(s, m, "Issued")
}

type grantLsCmd struct {
	Principal string `help:"Filter by holder." placeholder:"PRINCIPAL"`
	NS        string `name:"ns" help:"Filter by namespace, including grants for a part of it." placeholder:"NAME"`
	Active    bool   `help:"Show only grants that are neither revoked nor expired."`
	Limit     int    `aliases:"last" help:"Maximum number of results; 0: all. --last is another name." default:"0"`
}

// Run lists the grants that the caller may see, newest first.
func (c *grantLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, err := terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[sluice.Grant], error) {
		return api.Grants(ctx, client.GrantsQuery{
			Principal: sluice.Principal(c.Principal), Namespace: c.NS, Active: c.Active, Limit: most, Cursor: cursor,
		})
	})
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		now := time.Now()
		rows := make([][]string, len(all))
		for i, g := range all {
			rows[i] = []string{g.ID, string(g.Principal), verbs(g.Verbs), g.Object.String(), grantState(g, now), terminal.FormatTime(g.ExpiresAt), string(g.IssuedBy), g.Description}
		}
		return s.Table("ID | PRINCIPAL | VERBS | OBJECT | STATE | EXPIRES | FROM | DESCRIPTION", rows)
	})
}

type grantShowCmd struct {
	ID string `arg:"" help:"Grant."`
}

// Run shows the grant. Code NotFound also for a grant that the caller may not see.
func (c *grantShowCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	g, err := api.Grant(ctx, c.ID)
	if err != nil {
		return err
	}
	return s.Show(g, func() error { return s.Facts(grantFacts(g)...) })
}

type grantRenewCmd struct {
	end
	printing

	ID string `arg:"" help:"Grant."`
}

// Run issues the grant's new token. The old token is invalid from then on, so a lost response
// requires another renewal. Without --for or --until the expiry is unchanged. Code Conflict for a
// revoked grant.
func (c *grantRenewCmd) Run(ctx context.Context, s *terminal.Session) error {
	until, err := c.time(time.Now())
	if err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	m, err := api.RenewGrant(ctx, c.ID, until)
	if err != nil {
		return err
	}
	return c.minted(s, m, "Renewed")
}

type grantRevokeCmd struct {
	terminal.Confirmation

	IDs []string `arg:"" name:"id" help:"Grants."`
}

// Help explains the effect of a revocation.
func (*grantRevokeCmd) Help() string {
	return "Once it succeeds, no server sends anything more under the grant, and the subscriptions created under it are cancelled."
}

// Run revokes the grants. It asks once for all IDs, or requires --yes, and stops at the first that
// fails. Code Unavailable means that the server could not confirm that nothing more is sent; repeat
// it.
func (c *grantRevokeCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := c.Confirm(s, terminal.Question("Revoke %s and all grants derived from them permanently? The subscriptions created under them are cancelled.", strings.Join(c.IDs, ", "))); err != nil {
		return err
	}
	for _, id := range c.IDs {
		g, err := api.RevokeGrant(ctx, id)
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		if err := s.Show(g, func() error { return s.Say("Revoked grant %s of %s.", g.ID, g.Principal) }); err != nil {
			return err
		}
	}
	return nil
}

type grantVerifyCmd struct {
	Token  string         `arg:"" help:"Token, or ID of a grant; - reads it from stdin, hidden from other users."`
	Verb   sluice.Verb    `help:"Verb to check." placeholder:"VERB"`
	Object *sluice.Object `help:"Object to check: scope:NAMESPACE, path:NAMESPACE/PATTERN, entity:NAMESPACE/URI or *." placeholder:"OBJECT"`
}

// Run verifies the token or the grant. It returns an error unless that is valid and allows the
// requested action. The exit status is 1 for an invalid token and for a denied action, after the
// facts are printed. A grant's ID verifies its last token, which needs the right to see the grant.
func (c *grantVerifyCmd) Run(ctx context.Context, s *terminal.Session) error {
	if (c.Verb == "") != (c.Object == nil) {
		return terminal.Usagef("--verb and --object must be set together")
	}
	token, err := cmdkit.TokenOf(s, c.Token)
	if err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	var about sluice.Object
	if c.Object != nil {
		about = *c.Object
	}
	verify := api.VerifyToken
	if isGrant(token) {
		verify = api.VerifyGrant
	}
	v, err := verify(ctx, token, c.Verb, about)
	if err != nil {
		return err
	}
	if err := s.Show(v, func() error { return s.Facts(verificationFacts(v)...) }); err != nil {
		return err
	}
	switch {
	case !v.Valid:
		return errors.New("the token is invalid")
	case v.Allows != nil && !*v.Allows:
		return fmt.Errorf("the token does not permit its holder to %s %s: %s", c.Verb, about, whyNot(v.DeniedBy))
	}
	return nil
}

// isGrant reports whether a text has the form of a grant's ID, a UUID.
func isGrant(text string) bool { return len(text) == 36 && strings.Count(text, "-") == 4 }

// whyNot says which of the three required permissions is missing.
func whyNot(by sluice.Denial) string {
	switch by {
	case sluice.DeniedByList:
		return "the access list of the namespace denies it"
	case sluice.DeniedByLabel:
		return "a principal of the grant, or of one that it derives from, is not cleared for the label of the namespace"
	case sluice.DeniedByGrant:
		return "the grant, or one that it derives from, does not permit it"
	}
	return "the access list or the label of the namespace denies it"
}

func verificationFacts(v client.Verification) []string {
	facts := []string{"valid", cmdkit.YesNo(&v.Valid), "reason", v.Reason, "allows", cmdkit.YesNo(v.Allows), "denied by", string(v.DeniedBy)}
	if v.Grant != nil {
		facts = append(facts, grantFacts(*v.Grant)...)
	}
	return facts
}

// grantFacts returns a grant as names and values. part of is the grant from which it derives.
func grantFacts(g sluice.Grant) []string {
	return []string{
		"grant", g.ID, "principal", string(g.Principal), "verbs", verbs(g.Verbs), "object", g.Object.String(),
		"state", grantState(g, time.Now()), "description", g.Description, "on behalf of", string(g.OnBehalfOf),
		"issued", terminal.FormatTime(g.IssuedAt) + " by " + string(g.IssuedBy), "part of", g.Parent, "expires", terminal.FormatTime(g.ExpiresAt),
	}
}

// grantState describes a grant's state in a word, regardless of the state of its ancestors.
func grantState(g sluice.Grant, now time.Time) string {
	switch {
	case g.RevokedAt != nil:
		return "revoked by " + cmp.Or(string(g.RevokedBy), string(sluice.System))
	case !now.Before(g.ExpiresAt):
		return "expired"
	}
	return "active"
}

// verbs returns "read,subscribe", in the order given.
func verbs(all []sluice.Verb) string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = string(v)
	}
	return strings.Join(texts, ",")
}

// WhoamiCmd shows the token's principal.
type WhoamiCmd struct{}

// Run shows the principal and its grant, as the server knows them. Grant is nil for the root token.
func (WhoamiCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	who, err := api.WhoAmI(ctx)
	if err != nil {
		return err
	}
	return s.Show(who, func() error {
		if who.Grant == nil {
			return s.Facts("principal", string(who.Principal))
		}
		return s.Facts(grantFacts(*who.Grant)...)
	})
}
