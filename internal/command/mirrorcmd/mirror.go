package mirrorcmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Cmd manages mirrors.
type Cmd struct {
	Add        mirrorAddCmd        `cmd:"" help:"Create a mirror: a copy of a namespace in another one."`
	LS         mirrorLsCmd         `cmd:"" name:"ls" help:"List mirrors with their status."`
	Show       mirrorShowCmd       `cmd:"" help:"Show a mirror."`
	Edit       mirrorEditCmd       `cmd:"" help:"Change the interval, weight, description or metadata of a mirror."`
	Sync       mirrorSyncCmd       `cmd:"" help:"Sync a mirror now."`
	Status     mirrorStatusCmd     `cmd:"" help:"Show the status of a mirror, with its gaps."`
	Suspend    mirrorSuspendCmd    `cmd:"" help:"Stop a mirror; its copy stays readable."`
	Resume     mirrorResumeCmd     `cmd:"" help:"Validate a suspended mirror again, and continue."`
	RM         mirrorRmCmd         `cmd:"" name:"rm" help:"Delete mirrors with their copies."`
	Items      mirrorItemsCmd      `cmd:"" help:"List the entries of a mirror, or of all mirrors of a namespace."`
	Follow     mirrorFollowCmd     `cmd:"" help:"Follow the changes of a mirror live."`
	Credential mirrorCredentialCmd `cmd:"" help:"Replace the token with which a mirror reads its source."`
	Export     mirrorExportCmd     `cmd:"" help:"Export the changes of a namespace as signed bundles, for mirrors without a network."`
	Import     mirrorImportCmd     `cmd:"" help:"Import bundles into the mirror of their source."`
	Keys       mirrorKeysCmd       `cmd:"" help:"Show the public keys that sign the bundles of a namespace."`
	Trust      mirrorTrustCmd      `cmd:"" help:"Trust a key to sign bundles of a source."`
	Trusted    mirrorTrustedCmd    `cmd:"" help:"List the keys whose bundles a namespace imports, the revoked ones included."`
	Distrust   mirrorDistrustCmd   `cmd:"" help:"Revoke a key: nothing that it signed is imported any more."`
}

// credentialFlags name a token for a source. The token is not an argument, because other users can
// see arguments.
type credentialFlags struct {
	CredentialFile string `name:"credential-file" help:"File with the token for the source; - reads stdin; default: the token in SLUICE_MIRROR_CREDENTIAL." placeholder:"FILE"`
}

// credential returns the token; "" if there is none. The order is --credential-file, then the
// variable. A token is never printed and never an argument.
func (c credentialFlags) credential(s *terminal.Session) (string, error) {
	switch c.CredentialFile {
	case "":
		return s.Getenv("SLUICE_MIRROR_CREDENTIAL"), nil
	case "-":
		return cmdkit.TokenOf(s, "-")
	}
	data, err := os.ReadFile(filepath.Clean(c.CredentialFile))
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// mirrorAddCmd creates a mirror. A source on the same server needs no token. A mirror without a
// network to its source imports bundles.
type mirrorAddCmd struct {
	credentialFlags

	Source       string            `arg:"" help:"Source: a namespace of the server, or https://host/v1/namespaces/NAME of another one."`
	ID           string            `help:"ID of the mirror; default: generated." placeholder:"ID"`
	NS           string            `name:"ns" help:"Namespace that gets the copy; its label must dominate that of the source." default:"default" env:"SLUICE_NS"`
	Depth        string            `help:"How much of the data is copied: catalog (none), summary or full." enum:"catalog,summary,full" default:"catalog"`
	PathPrefix   string            `name:"path-prefix" help:"Copy only entries whose path begins so, such as /orders/; default: all." placeholder:"PREFIX"`
	PollInterval sluice.Duration   `name:"poll-interval" help:"Interval between syncs, 10s to 24h; default: 1m. For bundles, the interval in which they or heartbeats are expected, up to 744h; default: 24h." placeholder:"DURATION"`
	Weight       float64           `help:"Weight on each copied entry, above 0, up to 1; default: 0.3." placeholder:"N"`
	Description  string            `help:"Description." placeholder:"TEXT"`
	Metadata     map[string]string `help:"Metadata, such as embedding_model=NAME; repeatable." placeholder:"K=V" mapsep:"none"`
}

// Help shows examples.
func (*mirrorAddCmd) Help() string {
	return `Examples:

  sluice mirror add low --id reports --ns high --depth full
  sluice mirror add https://sluice.example.com/v1/namespaces/orders --id orders --ns orders-copy --credential-file orders.token

A source on another server requires a token that permits only read and mirror there (sluice grant create --verbs read).`
}

// Run creates the mirror. The server checks the source and its credential before it creates the
// mirror. Without a token, a mirror of a source on another server imports bundles. The token in the
// environment is sent for such a source only. Codes Conflict, NotFound, Forbidden,
// SubscriptionExists, MirrorCycle, QuotaExceeded, and Unprocessable for an interval or a weight out
// of bounds.
func (c *mirrorAddCmd) Run(ctx context.Context, s *terminal.Session) error {
	spec := client.MirrorSpec{
		ID: c.ID, Namespace: c.NS, Source: c.Source, Depth: sluice.Depth(c.Depth), PathPrefix: c.PathPrefix,
		PollInterval: c.PollInterval, Weight: c.Weight, Description: c.Description, Metadata: c.Metadata,
	}
	if (&sluice.Mirror{Source: c.Source}).Remote() || c.CredentialFile != "" {
		var err error
		if spec.Credential, err = c.credential(s); err != nil {
			return err
		}
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	m, err := api.CreateMirror(ctx, spec)
	if err != nil {
		return err
	}
	return s.Show(m, func() error {
		return s.Say("Mirror %s copies %s into %s every %s.", m.ID, m.Source, m.Namespace, terminal.FormatDuration(m.PollInterval))
	})
}

type mirrorLsCmd struct {
	NS     string `name:"ns" help:"Filter by the namespace that has the copy." placeholder:"NAME"`
	Source string `help:"Filter by source: a namespace or a URL." placeholder:"SOURCE"`
	State  string `help:"Filter by state: active or suspended." enum:",active,suspended" default:"" placeholder:"STATE"`
	Limit  int    `help:"Maximum number of results; 0: all." default:"0"`
}

// Run lists the mirrors. They are those of the namespaces that the caller administers, by ID. LAG
// is in sequences of the source.
func (c *mirrorLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, err := terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[client.MirrorSummary], error) {
		return api.Mirrors(ctx, client.MirrorsQuery{Namespace: c.NS, Source: c.Source, State: sluice.State(c.State), Limit: most, Cursor: cursor})
	})
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i, m := range all {
			is := &m.Status
			rows[i] = []string{
				m.ID, m.Namespace, m.Source, string(m.Depth), m.PathPrefix, cmdkit.Because(string(is.State), is.Reason), strconv.Itoa(is.MirroredCount),
				strconv.FormatUint(is.LagItems, 10), strconv.Itoa(len(is.Gaps)), terminal.FormatTimePtr(is.LastSyncAt),
			}
		}
		return s.Table("MIRROR | NAMESPACE | SOURCE | DEPTH | PREFIX | STATE | ENTRIES | LAG | GAPS | SYNCED", rows)
	})
}

type mirrorShowCmd struct {
	ID string `arg:"" help:"Mirror."`
}

// Run shows the mirror.
func (c *mirrorShowCmd) Run(ctx context.Context, s *terminal.Session) error {
	_, m, err := findMirror(ctx, s, c.ID)
	if err != nil {
		return err
	}
	return showMirror(s, m)
}

// findMirror returns a mirror, and a client for changing it. It returns an error for a subscription
// of another mode.
func findMirror(ctx context.Context, s *terminal.Session, id string) (*client.Client, sluice.Mirror, error) {
	api, err := s.Client()
	if err != nil {
		return nil, sluice.Mirror{}, err
	}
	m, err := api.Mirror(ctx, id)
	return api, m, err
}

// showMirror prints when the credential was set, and never the credential (S3-143).
func showMirror(s *terminal.Session, m sluice.Mirror) error {
	return s.Show(m, func() error {
		suspended, credential := "", ""
		if m.SuspendedAt != nil {
			suspended = terminal.FormatTime(*m.SuspendedAt) + ": " + m.SuspendDetail
		}
		if m.CredentialAt != nil {
			credential = "set " + terminal.FormatTime(*m.CredentialAt)
		}
		return s.Facts("mirror", m.ID, "namespace", m.Namespace, "source", m.Source, "depth", string(m.Depth), "path prefix", m.PathPrefix,
			"poll interval", terminal.FormatDuration(m.PollInterval), "weight", strconv.FormatFloat(m.Weight, 'g', -1, 64), "description", m.Description, "metadata", cmdkit.Compact(m.Metadata),
			"state", cmdkit.Because(string(m.State), m.Reason), "suspended", suspended, "credential", credential, "revision", strconv.FormatUint(m.Revision, 10),
			"created", terminal.FormatTime(m.CreatedAt)+terminal.By(m.CreatedBy), "approved by", m.ApprovedBy, "grant", m.Grant, "updated", terminal.FormatTime(m.UpdatedAt))
	})
}

// mirrorEditCmd changes a mirror. A nil field is unchanged; Metadata replaces all of the metadata.
type mirrorEditCmd struct {
	ID           string            `arg:"" help:"Mirror."`
	PollInterval *sluice.Duration  `name:"poll-interval" help:"Interval between syncs, 10s to 24h, or of bundles, up to 744h." placeholder:"DURATION"`
	Weight       *float64          `help:"Weight on each copied entry, above 0, up to 1." placeholder:"N"`
	Description  *string           `help:"Description." placeholder:"TEXT"`
	Metadata     map[string]string `help:"Metadata, instead of the present; repeatable." placeholder:"K=V" mapsep:"none"`
	Revision     uint64            `help:"Required current revision." placeholder:"N"`
}

// Run changes the settings that the flags name. --metadata replaces all of it. With --revision,
// code RevisionMismatch after another change.
func (c *mirrorEditCmd) Run(ctx context.Context, s *terminal.Session) error {
	if c.PollInterval == nil && c.Weight == nil && c.Description == nil && c.Metadata == nil {
		return terminal.Usagef("nothing to change: set --poll-interval, --weight, --description or --metadata")
	}
	api, _, err := findMirror(ctx, s, c.ID)
	if err != nil {
		return err
	}
	edit := sluice.MirrorEdit{PollInterval: c.PollInterval, Weight: c.Weight, Description: c.Description, Metadata: c.Metadata}
	m, err := api.UpdateMirror(ctx, c.ID, edit, c.Revision)
	if err != nil {
		return err
	}
	return showMirror(s, m)
}

type mirrorSuspendCmd struct {
	ID string `arg:"" help:"Mirror."`
}

// Run stops the mirror. The copy stays readable, and ages. Resume reverses it, so the command does
// not ask.
func (c *mirrorSuspendCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, _, err := findMirror(ctx, s, c.ID)
	if err != nil {
		return err
	}
	m, err := api.SuspendMirror(ctx, c.ID)
	if err != nil {
		return err
	}
	return s.Show(m, func() error { return s.Say("Suspended mirror %s.", c.ID) })
}

type mirrorResumeCmd struct {
	terminal.Confirmation

	ID           string `arg:"" help:"Mirror."`
	AcceptOrigin bool   `name:"accept-origin" help:"Remove the copy of a source whose log was replaced, and begin anew."`
}

// Help names the checks of a resumption.
func (*mirrorResumeCmd) Help() string {
	return "It checks what the creation checks. You answer for the mirror from then on."
}

// Run resumes the mirror. --accept-origin removes the copy, and asks or requires --yes. Without it,
// code Conflict if the log of the source was replaced.
func (c *mirrorResumeCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, _, err := findMirror(ctx, s, c.ID)
	if err != nil {
		return err
	}
	if c.AcceptOrigin {
		if err := c.Confirm(s, func() (string, error) { return copiesQuestion(ctx, api, "Begin anew, and remove", c.ID) }); err != nil {
			return err
		}
	}
	m, err := api.ResumeMirror(ctx, c.ID, c.AcceptOrigin)
	if err != nil {
		return err
	}
	return s.Show(m, func() error { return s.Say("Resumed mirror %s.", c.ID) })
}

// copiesQuestion returns a question that says how many entries are lost with the copies of mirrors.
// It makes one request for each mirror, and fails for one that does not exist.
func copiesQuestion(ctx context.Context, api *client.Client, what string, ids ...string) (string, error) {
	all := make([]string, len(ids))
	for i, id := range ids {
		st, err := api.MirrorStatus(ctx, id)
		if err != nil {
			return "", fmt.Errorf("%s: %w", id, err)
		}
		all[i] = fmt.Sprintf("the copy of %s (%d entries)", id, st.MirroredCount)
	}
	return fmt.Sprintf("%s %s?", what, strings.Join(all, ", ")), nil
}

type mirrorRmCmd struct {
	terminal.Confirmation

	IDs []string `arg:"" name:"id" help:"Mirrors."`
}

// Run deletes the mirrors. It deletes them one after another until one fails. The ID of a
// subscription of another mode is refused (SubscriptionMissing).
func (c *mirrorRmCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := c.Confirm(s, func() (string, error) { return copiesQuestion(ctx, api, "Delete permanently", c.IDs...) }); err != nil {
		return err
	}
	for _, id := range c.IDs {
		_, err := api.Mirror(ctx, id)
		if err == nil {
			err = api.DeleteMirror(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		if err := cmdkit.Done(s, "Deleted mirror %s.", id); err != nil {
			return err
		}
	}
	return nil
}

type mirrorItemsCmd struct {
	ID         string `arg:"" optional:"" help:"Mirror; default: all mirrors of a namespace."`
	NS         string `name:"ns" help:"Namespace that has the copies, without a mirror." default:"default" env:"SLUICE_NS"`
	PathPrefix string `name:"path-prefix" help:"Filter by the begin of the path, such as /orders/." placeholder:"PREFIX"`
	Limit      int    `help:"Maximum number of entries; 0: all." default:"100"`
}

// Help explains the order.
func (*mirrorItemsCmd) Help() string {
	return "Entries are listed in the order of their last change. One that was deleted at the source is listed as delete, without data."
}

// Run lists the entries. Each entry is listed once, in its latest state.
func (c *mirrorItemsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if c.ID != "" {
		m, err := api.Mirror(ctx, c.ID)
		if err != nil {
			return err
		}
		c.NS = m.Namespace
	}
	all, err := terminal.Collect(c.Limit, func(after string, most int) (client.Page[sluice.MirroredItem], error) {
		return api.Items(ctx, c.NS, client.ItemsQuery{Source: client.ItemsMirrored, Mirror: c.ID, PathPrefix: c.PathPrefix, Limit: most, After: after})
	})
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i, item := range all {
			op, ev := item.Change.Op, item.Change.Event
			if item.Tombstoned {
				op = sluice.OpDelete
			}
			rows[i] = []string{item.Subscription, strconv.FormatUint(ev.Seq, 10), string(op), ev.ID, string(ev.Path), terminal.FormatTime(ev.Time), ev.Type, cmdkit.Excerpt(ev.Data)}
		}
		return s.Table("MIRROR | SEQ | OP | ID | PATH | TIME | TYPE | DATA", rows)
	})
}

type mirrorCredentialCmd struct {
	credentialFlags

	ID string `arg:"" help:"Mirror."`
}

// Help says which permissions a token may have.
func (*mirrorCredentialCmd) Help() string {
	return "The token must be that of a grant that permits only read and mirror at the source. No response has it."
}

// Run replaces the token. Codes Conflict for a source on the same server; Forbidden if the token
// may do more than read (S3-142).
func (c *mirrorCredentialCmd) Run(ctx context.Context, s *terminal.Session) error {
	token, err := c.credential(s)
	if err != nil {
		return err
	}
	if token == "" {
		return terminal.Usagef("a token is required: --credential-file FILE, or the variable SLUICE_MIRROR_CREDENTIAL")
	}
	api, _, err := findMirror(ctx, s, c.ID)
	if err != nil {
		return err
	}
	m, err := api.PutMirrorCredential(ctx, c.ID, token)
	if err != nil {
		return err
	}
	return s.Show(m, func() error { return s.Say("Mirror %s reads its source with the new token.", c.ID) })
}
