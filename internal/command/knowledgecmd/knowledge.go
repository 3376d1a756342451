package knowledgecmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Cmd manages enrichment.
type Cmd struct {
	Put         knowledgePutCmd         `cmd:"" help:"Configure the enrichment of a namespace."`
	Show        knowledgeShowCmd        `cmd:"" help:"Show the enrichment of a namespace."`
	RM          knowledgeRmCmd          `cmd:"" name:"rm" help:"End the enrichment of a namespace, and remove its results."`
	Search      knowledgeSearchCmd      `cmd:"" help:"Find the neighbours of an entry or a vector."`
	Comparisons knowledgeComparisonsCmd `cmd:"" help:"List the entries that were compared, or the comparisons of one."`
	Jobs        knowledgeJobsCmd        `cmd:"" help:"List the jobs for workers."`
	Claim       knowledgeClaimCmd       `cmd:"" help:"Claim jobs."`
	Renew       knowledgeRenewCmd       `cmd:"" help:"Extend the lease of a claimed job."`
	Complete    knowledgeCompleteCmd    `cmd:"" help:"Store the result of a claimed job."`
	Fail        knowledgeFailCmd        `cmd:"" help:"Report that a claimed job could not be done."`
	Retry       knowledgeRetryCmd       `cmd:"" help:"Have failed jobs tried again."`
}

// namespaceFlag is the flag for the namespace of a command.
type namespaceFlag struct {
	NS string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
}

// knowledgePutCmd configures an enrichment. Nil, 0 and "" are the server's defaults; Revision 0 is
// any revision.
type knowledgePutCmd struct {
	namespaceFlag

	Model       string          `required:"" help:"Embedding model. Another one embeds all entries again." placeholder:"NAME"`
	Dimensions  int             `required:"" help:"Elements of an embedding, up to 8192." placeholder:"N"`
	Pattern     string          `help:"Paths of the events that are entries; default: all." placeholder:"PATTERN"`
	TopK        *int            `name:"top-k" help:"Neighbours that an entry is compared with, 0 to 100; default: 5." placeholder:"N"`
	ReviewAbove *float64        `name:"review-above" help:"Effective friction above which an entry needs a review, 0 to 1; default: 0.2." placeholder:"N"`
	Lease       sluice.Duration `help:"Lease of a claimed job, 1s to 10m; default: 30s." placeholder:"DURATION"`
	MaxAttempts int             `name:"max-attempts" help:"Attempts until a job has failed; default: 5." placeholder:"N"`
	Revision    uint64          `help:"Required current revision." placeholder:"N"`
}

// Run stores the configuration. Settings without a flag return to their defaults. With another
// model, all entries are embedded again; the command does not ask. With --revision, code
// RevisionMismatch after another change.
func (c *knowledgePutCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	is, err := api.PutEnrichment(ctx, c.NS, client.EnrichmentSpec{
		Model: c.Model, Dimensions: c.Dimensions, Pattern: sluice.Pattern(c.Pattern), TopK: c.TopK, ReviewAbove: c.ReviewAbove, Lease: c.Lease, MaxAttempts: c.MaxAttempts,
	}, c.Revision)
	if err != nil {
		return err
	}
	return s.Show(is, func() error { return s.Facts(enrichmentFacts(is)...) })
}

// enrichmentFacts returns the settings as names and values for Session.Facts.
func enrichmentFacts(is sluice.Enrichment) []string {
	return []string{
		"namespace", is.Namespace, "model", is.Model, "dimensions", strconv.Itoa(is.Dimensions), "pattern", string(is.Pattern),
		"top k", strconv.Itoa(is.TopK), "review above", decimal(is.ReviewAbove), "lease", terminal.FormatDuration(is.Lease),
		"max attempts", strconv.Itoa(is.MaxAttempts), "revision", strconv.FormatUint(is.Revision, 10),
		"updated", terminal.FormatTime(is.UpdatedAt) + terminal.By(is.UpdatedBy),
	}
}

// decimal formats a number with four significant digits.
func decimal(f float64) string { return strconv.FormatFloat(f, 'g', 4, 64) }

type knowledgeShowCmd struct{ namespaceFlag }

// Run shows the configuration.
func (c *knowledgeShowCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	is, err := api.Enrichment(ctx, c.NS)
	if err != nil {
		return err
	}
	return s.Show(is, func() error { return s.Facts(append(enrichmentFacts(is.Enrichment), heldFacts(is.Status)...)...) })
}

// heldFacts describes the entries that a replica has in memory. Nil means that the replica that
// answered is reading them. The numbers are of that replica.
func heldFacts(is *sluice.EnrichmentStatus) []string {
	if is == nil {
		return []string{"entries", "being read"}
	}
	facts := []string{"entries", fmt.Sprintf("%d in memory, %d embedded", is.Entries, is.Embedded), "memory", fmt.Sprintf("%.1f MiB", float64(is.MemoryBytes)/(1<<20))}
	if is.Problem != "" {
		facts = append(facts, "problem", is.Problem)
	}
	return facts
}

type knowledgeRmCmd struct {
	namespaceFlag
	terminal.Confirmation
}

// Run ends the enrichment. It asks, or requires --yes: the results cost the work of workers. The
// events stay.
func (c *knowledgeRmCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := c.Confirm(s, terminal.Question("Delete permanently all embeddings and comparisons of %s?", c.NS)); err != nil {
		return err
	}
	if err := api.DeleteEnrichment(ctx, c.NS); err != nil {
		return err
	}
	return cmdkit.Done(s, "Ended the enrichment of %s.", c.NS)
}

// knowledgeSearchCmd searches for similar entries. A vector must have the dimensions of the
// enrichment; the server refuses others.
type knowledgeSearchCmd struct {
	namespaceFlag

	Entry  string `arg:"" optional:"" help:"ID of an entry."`
	Mirror string `help:"Mirror of the entry; default: it is an entry of the namespace." placeholder:"ID"`
	Vector string `help:"File with a vector as a JSON array, in place of an entry; - reads stdin." placeholder:"FILE"`
	TopK   int    `name:"top-k" help:"Number of neighbours, 1 to 100; default: that of the enrichment." placeholder:"N"`
	Source string `help:"Only entries of this source: local, mirrored or all." enum:"local,mirrored,all" default:"all"`
}

// Run lists the neighbours. The most similar is first. The query is an entry or a vector, exactly
// one of them. The server says if its result may lack entries, which is printed below the table and
// is no error.
func (c *knowledgeSearchCmd) Run(ctx context.Context, s *terminal.Session) error {
	q := client.SearchQuery{Entry: c.Entry, Mirror: c.Mirror, TopK: c.TopK, Source: c.Source}
	switch {
	case (c.Entry == "") == (c.Vector == ""):
		return terminal.Usagef("name an entry, or --vector FILE")
	case c.Vector != "":
		data, err := contentOf(s, c.Vector)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &q.Vector); err != nil {
			return terminal.Usagef("--vector: the file must have a JSON array of numbers")
		}
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	found, err := api.Search(ctx, c.NS, q)
	if err != nil {
		return err
	}
	return s.Show(found, func() error {
		rows := make([][]string, len(found.Neighbours))
		for i, n := range found.Neighbours {
			ev := &n.Item.Change.Event
			rows[i] = []string{decimal(n.Similarity), n.Item.Source, n.Item.Subscription, ev.ID, string(ev.Path), cmdkit.Excerpt(ev.Data)}
		}
		if err := s.Table("SIMILARITY | SOURCE | MIRROR | ID | PATH | DATA", rows); err != nil || found.Problem == "" {
			return err
		}
		return s.Say("The result may be incomplete: %s.", found.Problem)
	})
}

// contentOf returns the content of a file, or of stdin for "-".
func contentOf(s *terminal.Session, file string) ([]byte, error) {
	if file == "-" {
		data, err := io.ReadAll(s.Stdin)
		if err != nil {
			return nil, fmt.Errorf("read stdin: %w", err)
		}
		return data, nil
	}
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	return data, nil
}

type knowledgeComparisonsCmd struct {
	namespaceFlag

	Entry       string `arg:"" optional:"" help:"ID of an entry; default: list the entries that were compared."`
	NeedsReview bool   `name:"needs-review" help:"Only entries that need a review."`
	Limit       int    `help:"Maximum number of entries; 0: all." default:"100"`
}

// Run lists entries, or comparisons. Entries are in the order of their IDs.
func (c *knowledgeComparisonsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if c.Entry != "" {
		return c.one(ctx, s, api)
	}
	all, err := terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[sluice.Review], error) {
		return api.Reviews(ctx, c.NS, client.ReviewsQuery{NeedsReview: c.NeedsReview, Limit: most, Cursor: cursor})
	})
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i := range all {
			r := &all[i]
			rows[i] = []string{r.Entry, string(r.Path), friction(r.MaxFriction), cmdkit.YesNo(&r.NeedsReview), fmt.Sprintf("%d of %d", r.Comparisons, r.ExpectedComparisons)}
		}
		return s.Table("ENTRY | PATH | FRICTION | REVIEW | COMPARED", rows)
	})
}

// friction returns "-" for nil: nothing was compared yet.
func friction(f *float64) string {
	if f == nil {
		return "-"
	}
	return decimal(*f)
}

// one prints the comparisons of an entry, the greatest effective friction first. Code NotFound.
func (c *knowledgeComparisonsCmd) one(ctx context.Context, s *terminal.Session, api *client.Client) error {
	is, err := api.Comparisons(ctx, c.NS, c.Entry)
	if err != nil {
		return err
	}
	return s.Show(is, func() error {
		if err := s.Say("%s: %d of %d neighbours compared, friction %s, review needed: %s", is.Entry, is.Comparisons, is.ExpectedComparisons, friction(is.MaxFriction), cmdkit.YesNo(&is.NeedsReview)); err != nil {
			return err
		}
		rows := make([][]string, len(is.All))
		for i := range is.All {
			one := &is.All[i]
			rows[i] = []string{decimal(one.EffectiveFriction), decimal(one.DiscountFactor), one.Against.Source, one.Against.Subscription, one.Against.ID, cmdkit.Excerpt(one.Comparison)}
		}
		return s.Table("EFFECTIVE | DISCOUNT | SOURCE | MIRROR | ID | COMPARISON", rows)
	})
}
