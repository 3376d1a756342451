package accesscmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// ACLCmd manages the access lists of namespaces.
type ACLCmd struct {
	LS  aclLsCmd  `cmd:"" name:"ls" help:"List the access list entries of a namespace."`
	Set aclSetCmd `cmd:"" help:"Set the permissions of a principal in a namespace, replacing its entries."`
	RM  aclRmCmd  `cmd:"" name:"rm" help:"Remove a principal from the access list of a namespace."`
}

type aclLsCmd struct {
	NS string `arg:"" name:"ns" help:"Namespace."`
}

// Run lists the entries. They are ordered by principal. A list that never had an entry is not in
// force: grants alone decide then.
func (c *aclLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, err := api.ACLs(ctx, c.NS)
	if err != nil {
		return err
	}
	return s.Show(all, func() error { return aclTable(s, all...) })
}

// aclTable prints a line for each entry.
func aclTable(s *terminal.Session, all ...sluice.ACL) error {
	var rows [][]string
	for _, a := range all {
		for _, e := range a.Entries {
			rows = append(rows, []string{string(a.Principal), e.Tier.String(), string(e.Pattern)})
		}
	}
	return s.Table("PRINCIPAL | TIER | PATTERN", rows)
}

type aclSetCmd struct {
	terminal.Confirmation

	NS        string         `arg:"" name:"ns" help:"Namespace."`
	Principal string         `arg:"" help:"Principal: user:NAME, ai_agent:NAME, service:NAME or system:NAME."`
	Tier      sluice.Tier    `arg:"" help:"Tier: existence, read, write or admin; each includes the previous ones."`
	Pattern   sluice.Pattern `arg:"" optional:"" default:"/**" help:"Pattern of paths; default: all."`
	Also      []string       `help:"Further entry of the principal, as TIER:PATTERN; repeatable." placeholder:"read:/a/**" sep:"none"`
}

// Help explains the effect of the first entry.
func (*aclSetCmd) Help() string {
	return "The first entry puts the access list of a namespace into force, permanently: a principal without an entry cannot even see the\n" +
		"namespace, regardless of its grants. Add an admin first: sluice acl set NS PRINCIPAL admin."
}

// Run stores the entries. The entries replace those of the principal. Code Conflict if the
// namespace would lose its last admin. The change applies from the next attempt of every delivery
// on (S0-59).
func (c *aclSetCmd) Run(ctx context.Context, s *terminal.Session) error {
	who, err := sluice.ParsePrincipal(c.Principal)
	if err != nil {
		return terminal.Usage(err)
	}
	lines, err := c.lines()
	if err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := c.sureOf(ctx, s, api, lines); err != nil {
		return err
	}
	acl, err := api.PutACL(ctx, c.NS, who, lines...)
	if err != nil {
		return err
	}
	return s.Show(acl, func() error { return aclTable(s, acl) })
}

// lines returns the entries of the command line, or a usage error. The first line is that of the
// arguments; each --also adds one.
func (c *aclSetCmd) lines() ([]sluice.Access, error) {
	all := []sluice.Access{{Tier: c.Tier, Pattern: c.Pattern}}
	for _, text := range c.Also {
		tier, pattern, _ := strings.Cut(text, ":")
		e := sluice.Access{Pattern: sluice.Pattern(pattern)}
		if err := e.Tier.UnmarshalText([]byte(tier)); err != nil {
			return nil, terminal.Usagef("--also %q: write a tier, a colon and a pattern, such as read:/a/**: %w", text, err)
		}
		all = append(all, e)
	}
	for _, e := range all {
		if _, err := sluice.ParsePattern(string(e.Pattern)); err != nil {
			return nil, terminal.Usage(err)
		}
	}
	return all, nil
}

// given reports whether one of the entries includes another entry. A list that includes every old
// entry takes nothing away, and needs no confirmation.
func given(lines []sluice.Access, e sluice.Access) bool {
	return slices.ContainsFunc(lines, func(n sluice.Access) bool { return n.Tier >= e.Tier && n.Pattern.Covers(e.Pattern) })
}

// makesAdmin reports whether one of the entries is the tier admin on the whole namespace.
func makesAdmin(lines []sluice.Access) bool {
	for _, e := range lines {
		if e.Tier == sluice.TierAdmin && e.Everything() {
			return true
		}
	}
	return false
}

// sureOf asks the user before a list gets its first entry, if that is not for an admin, and before
// new entries reduce a principal's access. With --yes it makes no request.
func (c *aclSetCmd) sureOf(ctx context.Context, s *terminal.Session, api *client.Client, lines []sluice.Access) error {
	if c.Yes {
		return nil
	}
	all, err := api.ACLs(ctx, c.NS)
	if err != nil {
		return err
	}
	for _, a := range all {
		if string(a.Principal) == c.Principal && slices.ContainsFunc(a.Entries, func(e sluice.Access) bool { return !given(lines, e) }) {
			return c.Confirm(s, terminal.Question("Reduce the permissions of %s in %s? Subscriptions that depend on them are cancelled permanently.", c.Principal, c.NS))
		}
	}
	if makesAdmin(lines) || len(all) > 0 {
		return nil
	}
	return c.Confirm(s, terminal.Question("This is the first entry of the access list of %s: afterwards only %s and root can see the namespace, and only root can administer it. Continue?", c.NS, c.Principal))
}

type aclRmCmd struct {
	terminal.Confirmation

	NS        string `arg:"" name:"ns" help:"Namespace."`
	Principal string `arg:"" help:"Principal."`
}

// Run removes the entries. It always asks, or requires --yes. Codes NotFound; Conflict for the last
// admin.
func (c *aclRmCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := c.Confirm(s, terminal.Question("Remove all permissions of %s in %s? Subscriptions that depend on them are cancelled permanently.", c.Principal, c.NS)); err != nil {
		return err
	}
	if err := api.DeleteACL(ctx, c.NS, sluice.Principal(c.Principal)); err != nil {
		return err
	}
	return s.Show(map[string]any{"ok": true, "name": c.Principal}, func() error {
		return s.Say("Removed all permissions of %s in %s.", c.Principal, c.NS)
	})
}

// PrincipalCmd manages principals' clearances.
type PrincipalCmd struct {
	LS  principalLsCmd  `cmd:"" name:"ls" help:"List the clearances of principals."`
	Set principalSetCmd `cmd:"" help:"Set the clearance of a principal."`
	RM  principalRmCmd  `cmd:"" name:"rm" help:"Delete the clearance of a principal, which is PUBLIC afterwards."`
}

type principalLsCmd struct{}

// Run lists the principals. They are ordered by name. A principal that is not listed has the
// clearance PUBLIC.
func (principalLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, err := api.Principals(ctx)
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i, p := range all {
			rows[i] = []string{string(p.Principal), cmdkit.FormatLabel(p.Clearance), p.Description}
		}
		return s.Table("PRINCIPAL | CLEARANCE | DESCRIPTION", rows)
	})
}

type principalSetCmd struct {
	terminal.Confirmation

	Principal   string `arg:"" help:"Principal: user:NAME, ai_agent:NAME, service:NAME or system:NAME."`
	Clearance   string `help:"Level (PUBLIC, INTERNAL, CONFIDENTIAL, SECRET, TOP_SECRET), optionally with compartments, such as SECRET/finance,legal." placeholder:"LABEL" required:""`
	Description string `help:"Description of the principal." placeholder:"TEXT"`
}

// Run stores the principal's clearance. It replaces the description, too: without --description it
// becomes empty.
func (c *principalSetCmd) Run(ctx context.Context, s *terminal.Session) error {
	who, err := sluice.ParsePrincipal(c.Principal)
	if err != nil {
		return terminal.Usage(err)
	}
	clearance, err := sluice.ParseClassification(c.Clearance)
	if err != nil {
		return terminal.Usagef("--clearance: %w", err)
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := c.sureToLower(ctx, s, api, sluice.Profile{Principal: who, Clearance: clearance}); err != nil {
		return err
	}
	p, err := api.PutPrincipal(ctx, sluice.Profile{Principal: who, Clearance: clearance, Description: c.Description})
	if err != nil {
		return err
	}
	return s.Show(p, func() error { return s.Say("%s is cleared for %s.", p.Principal, cmdkit.FormatLabel(p.Clearance)) })
}

// sureToLower asks the user before the command lowers a principal's clearance. A clearance that is
// neither above nor below the old one counts as lower. A principal without a clearance cannot lose
// any.
func (c *principalSetCmd) sureToLower(ctx context.Context, s *terminal.Session, api *client.Client, next sluice.Profile) error {
	if c.Yes {
		return nil
	}
	before, err := api.Principal(ctx, next.Principal)
	if sluice.CodeOf(err) == sluice.NotFound {
		return nil
	}
	if err != nil || next.Clearance.Dominates(before.Clearance) {
		return err
	}
	return c.Confirm(s, terminal.Question("Lower the clearance of %s below %s? Subscriptions that depend on it are cancelled permanently.", next.Principal, cmdkit.FormatLabel(before.Clearance)))
}

type principalRmCmd struct {
	terminal.Confirmation

	Principal string `arg:"" help:"Principal."`
}

// Run removes the clearance. Code NotFound if it has none.
func (c *principalRmCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := c.Confirm(s, terminal.Question("Delete the clearance of %s? Subscriptions that depend on it are cancelled permanently.", c.Principal)); err != nil {
		return err
	}
	if err := api.DeletePrincipal(ctx, sluice.Principal(c.Principal)); err != nil {
		return err
	}
	return cmdkit.Done(s, "%s is cleared for PUBLIC only.", c.Principal)
}

// EraseCmd removes events from a log for good.
type EraseCmd struct {
	terminal.Confirmation

	NS   string      `arg:"" name:"ns" help:"Namespace."`
	Path sluice.Path `arg:"" optional:"" help:"Path to erase, such as /orders/42; without a path, lists the erased paths."`
}

// Help explains the effect on the events.
func (*EraseCmd) Help() string {
	return "All events on the path are deleted from the log, and deliveries in flight, retries and replays of them stop.\n" +
		"This cannot be undone. Events that endpoints have received are unaffected, and so are later events on the path."
}

// Run erases events, or lists the erasures. When it succeeds, no erased event is sent any more.
// Erasing again covers the events that were published since.
func (c *EraseCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if c.Path == "" {
		return erased(ctx, s, api, c.NS)
	}
	if _, err := sluice.ParsePath(string(c.Path)); err != nil {
		return terminal.Usage(err)
	}
	if err := c.Confirm(s, func() (string, error) { return c.question(ctx, api) }); err != nil {
		return err
	}
	stone, err := api.Erase(ctx, c.NS, c.Path)
	if err != nil {
		return err
	}
	return s.Show(stone, func() error {
		return s.Say("Erased the events on %s in %s up to %d, permanently: they are never sent again.", stone.Path, stone.Namespace, stone.UpTo)
	})
}

// question returns a question that says what is lost. It counts up to 1,000 events, if the caller
// may read them.
func (c *EraseCmd) question(ctx context.Context, api *client.Client) (string, error) {
	const most = 1000
	page, err := api.Events(ctx, c.NS, client.EventsQuery{Pattern: sluice.Pattern(c.Path), Limit: most})
	many := strconv.Itoa(len(page.Items))
	if page.Next != "" {
		many = "more than " + many
	}
	of, err := terminal.Counted(err, ", %s events,", many)
	return fmt.Sprintf("Erase everything on %s%s in %s? This cannot be undone: the events are deleted and never sent again.", c.Path, of, c.NS), err
}

// erased lists the tombstones, by path.
func erased(ctx context.Context, s *terminal.Session, api *client.Client, namespace string) error {
	all, err := api.Tombstones(ctx, namespace)
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i, t := range all {
			rows[i] = []string{string(t.Path), strconv.FormatUint(t.UpTo, 10), terminal.FormatTime(t.At), string(t.By)}
		}
		return s.Table("PATH | UP TO SEQ | ERASED | BY", rows)
	})
}
