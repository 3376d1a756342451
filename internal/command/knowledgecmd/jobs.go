package knowledgecmd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

type knowledgeJobsCmd struct {
	namespaceFlag

	State string `help:"Filter by state: pending, claimed or failed." enum:",pending,claimed,failed" default:"" placeholder:"STATE"`
	Type  string `help:"Filter by type: embed, embed_mirrored or compare." enum:",embed,embed_mirrored,compare" default:"" placeholder:"TYPE"`
	Limit int    `help:"Maximum number of jobs; 0: all." default:"100"`
}

// Run lists the jobs. They are those that have not succeeded, by priority and ID.
func (c *knowledgeJobsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, err := terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[sluice.Job], error) {
		return api.Jobs(ctx, c.NS, client.JobsQuery{State: sluice.JobState(c.State), Type: sluice.JobType(c.Type), Limit: most, Cursor: cursor})
	})
	if err != nil {
		return err
	}
	return s.Show(all, func() error { return jobTable(s, all) })
}

// jobTable prints jobs without their content and tokens.
func jobTable(s *terminal.Session, all []sluice.Job) error {
	rows := make([][]string, len(all))
	for i := range all {
		j := &all[i]
		rows[i] = []string{
			j.ID, string(j.Type), strconv.Itoa(j.Priority), string(j.State), entryName(&j.Entry), entryName(j.Against), strconv.Itoa(j.Attempts), j.Worker,
			terminal.FormatTimePtr(j.NotBefore), j.Error,
		}
	}
	return s.Table("JOB | TYPE | PRIORITY | STATE | ENTRY | AGAINST | ATTEMPTS | WORKER | NEXT | ERROR", rows)
}

// entryName returns the ID of an entry, preceded by its mirror. The text is "MIRROR/ID" for a
// mirrored entry, "-" for nil.
func entryName(ref *sluice.EntryRef) string {
	switch {
	case ref == nil:
		return "-"
	case ref.Subscription != "":
		return ref.Subscription + "/" + ref.ID
	}
	return ref.ID
}

// knowledgeClaimCmd claims jobs. With several jobs, only -o json has the tokens.
type knowledgeClaimCmd struct {
	namespaceFlag

	Worker string          `required:"" help:"Name of the worker." placeholder:"NAME"`
	Max    int             `help:"Number of jobs, 1 to 100." default:"1"`
	Types  []string        `help:"Only these types: embed, embed_mirrored, compare." placeholder:"TYPE"`
	Wait   sluice.Duration `help:"Time to wait for the first job, up to 30s; default: not at all." placeholder:"DURATION"`

	TokenFile string `name:"token-file" help:"File to write the token of the job to, for renew, complete and fail; only for one job." placeholder:"FILE"`
}

// Help says where the token is.
func (*knowledgeClaimCmd) Help() string {
	return `With -o json, each job has its content and its token.

Example:

  sluice knowledge claim --worker me --token-file job.token -o json >job.json
  sluice knowledge complete entry.42 --token-file job.token --result result.json`
}

// Run claims jobs. No job is a success with an empty table. The token is in the JSON and in
// --token-file only, which is overwritten. If the response is lost, the jobs can be claimed again
// when their leases end.
func (c *knowledgeClaimCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if c.TokenFile != "" && c.Max != 1 {
		return terminal.Usagef("--token-file is for one job; omit --max, or use -o json")
	}
	q := client.ClaimQuery{Worker: c.Worker, Max: c.Max, Wait: time.Duration(c.Wait)}
	for _, t := range c.Types {
		q.Types = append(q.Types, sluice.JobType(t))
	}
	jobs, err := api.ClaimJobs(ctx, c.NS, q)
	if err != nil {
		return err
	}
	if c.TokenFile != "" && len(jobs) > 0 {
		if err := os.WriteFile(filepath.Clean(c.TokenFile), []byte(jobs[0].Token+"\n"), 0o600); err != nil {
			return fmt.Errorf("write the token: %w", err)
		}
	}
	return s.Show(jobs, func() error {
		all := make([]sluice.Job, len(jobs))
		for i := range jobs {
			all[i] = jobs[i].Job
		}
		return jobTable(s, all)
	})
}

// claimFlags name a claimed job and its token. The token is not an argument, because other users
// can see arguments.
type claimFlags struct {
	namespaceFlag

	Job       string `arg:"" help:"Job."`
	TokenFile string `name:"token-file" required:"" help:"File with the token of the claim; - reads stdin." placeholder:"FILE"`
}

// claim returns a client and the claim. White space around the token is removed. It returns an
// error if the file cannot be read.
func (c *claimFlags) claim(s *terminal.Session) (*client.Client, client.JobClaim, error) {
	claim := client.JobClaim{Namespace: c.NS, Job: c.Job}
	data, err := contentOf(s, c.TokenFile)
	if err != nil {
		return nil, claim, err
	}
	claim.Token = strings.TrimSpace(string(data))
	api, err := s.Client()
	return api, claim, err
}

type knowledgeRenewCmd struct{ claimFlags }

// Run extends the lease. Codes TokenInvalid; TokenExpired; Fenced if the claim has ended.
func (c *knowledgeRenewCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, claim, err := c.claim(s)
	if err != nil {
		return err
	}
	j, err := api.RenewJob(ctx, claim)
	if err != nil {
		return err
	}
	return s.Show(j, func() error { return s.Say("The lease of %s ends %s.", j.ID, terminal.FormatTimePtr(j.LeaseUntil)) })
}

type knowledgeCompleteCmd struct {
	claimFlags

	Result string `required:"" help:"File with the result as JSON: {\"embedding\": […]} or {\"comparison\": {\"friction\": …}}." placeholder:"FILE"`
}

// Run stores the result. The result is read before the claim is used. Codes as of renew;
// InvalidRequest for a result that does not fit the job, such as a vector of another length.
func (c *knowledgeCompleteCmd) Run(ctx context.Context, s *terminal.Session) error {
	data, err := os.ReadFile(filepath.Clean(c.Result))
	if err != nil {
		return fmt.Errorf("read the result: %w", err)
	}
	var result sluice.JobResult
	if err := json.Unmarshal(data, &result); err != nil {
		return terminal.Usagef("--result: the file must have a JSON object with embedding or comparison")
	}
	api, claim, err := c.claim(s)
	if err != nil {
		return err
	}
	if err := api.CompleteJob(ctx, claim, result); err != nil {
		return err
	}
	return cmdkit.Done(s, "Completed %s.", c.Job)
}

type knowledgeFailCmd struct {
	claimFlags

	Reason string `name:"error" required:"" help:"Reason." placeholder:"TEXT"`
	Final  bool   `help:"No other attempt can succeed."`
}

// Run reports the failure. The printed state is pending if another attempt follows, else failed.
// Codes as of renew.
func (c *knowledgeFailCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, claim, err := c.claim(s)
	if err != nil {
		return err
	}
	j, err := api.FailJob(ctx, claim, c.Reason, c.Final)
	if err != nil {
		return err
	}
	return s.Show(j, func() error { return s.Say("%s is %s after %d attempts.", j.ID, j.State, j.Attempts) })
}

type knowledgeRetryCmd struct {
	namespaceFlag

	Jobs []string `arg:"" name:"job" help:"Failed jobs."`
}

// Run makes the server try the jobs again. It stops at the first job that fails, and names it.
// Codes NotFound; Conflict if the job has not failed, or cannot succeed.
func (c *knowledgeRetryCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	for _, id := range c.Jobs {
		if _, err := api.RetryJob(ctx, c.NS, id); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		if err := cmdkit.Done(s, "%s is tried again.", id); err != nil {
			return err
		}
	}
	return nil
}
