package app

import (
	"context"
	"fmt"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/loopguard"
	"github.com/sluice-io/sluice/internal/module/host"
	"github.com/sluice-io/sluice/internal/module/program"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/ownership"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// openModules constructs the host of modules.
func (s *server) openModules(context.Context) error {
	as, err := userOf(s.cfg.Modules.User)
	if err != nil {
		return err
	}
	data, err := filepath.Abs(s.cfg.Data)
	if err != nil {
		return fmt.Errorf("modules: %w", err)
	}
	replica, err := datadir.ReplicaID(s.cfg.Data)
	if err != nil {
		return err
	}
	approvals := records.NewModules(s.Store)
	s.moduleService = host.NewService(host.Deps{
		Approvals: approvals, Subscriptions: s.registry, Ledger: s.ledger, Teller: records.Teller{Log: s.log}, Now: time.Now,
		Marks: moduleMarks{s.marks, s.producers()},
	})
	s.modules = host.New(host.Options{
		Dirs: s.cfg.Modules.Dirs, Copies: filepath.Join(data, "modules"), User: as, Log: s.opts.Log, Render: s.sender, Changed: s.moduleService.Changed,
		Publish: host.Ingested{Ingest: s.ingest(s.causes, action.Cancellable{Publisher: eventlog.Exact{Log: s.log, Shows: host.MayRepeat}}), Log: records.NewModuleLog(s.log, s.Store), Now: time.Now},
		Moved:   func() { s.divide() },
		API:     host.API{URL: s.publicURL(), Keys: &s.wakeKeys, Replica: replica},
	})
	s.moduleService.Host = s.modules
	return s.modules.Open()
}

// userOf returns the user with a name, for programs to run as; nil stands for the server's user.
func userOf(name string) (*program.User, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // none is set
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("modules.user: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("modules.user %s: user id %s: %w", name, u.Uid, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("modules.user %s: group id %s: %w", name, u.Gid, err)
	}
	return &program.User{Name: u.Username, UID: uint32(uid), GID: uint32(gid)}, nil
}

// followModules applies the stored approvals of modules until ctx is done.
func (s *server) followModules(ctx context.Context) error {
	return records.NewModules(s.Store).Watch(ctx, func(name string, a *host.Approval) { s.modules.Set(ctx, name, a) })
}

// attemptSender returns the sender of attempts.
func (s *server) attemptSender() host.Sender {
	return host.Sender{Programs: s.modules, Requests: s.sender}
}

// moduleMarks reads and clears the marks of modules as unsafe producers.
type moduleMarks struct {
	records.Marks
	loopguard.Producers
}

// producers returns the operations on unsafe producers.
func (s *server) producers() loopguard.Producers {
	return loopguard.Producers{Marks: s.marks, Guard: s.causes, Ledger: s.ledger}
}

// markFollower passes the marks of producers to the loop guard, and those of modules also to the
// service of modules.
type markFollower struct {
	*loopguard.Guard

	modules *host.Service
}

// SetMark applies a stored mark.
func (f markFollower) SetMark(is sluice.Unsafe, revision uint64) {
	f.Guard.SetMark(is, revision)
	f.modules.Marked(is.Producer)
}

// openLeases constructs the leases of this replica, which are divided again when the modules that
// it can run change. It comes after openModules, because leases are divided by the modules that a
// replica can run.
func (s *server) openLeases(ctx context.Context) error {
	leases, err := s.Store.Leases(ctx, s.replica, s.modules.Ready)
	if err != nil {
		return err
	}
	s.leases = leases
	s.divide, s.owns, s.moduleService.Serves = leases.Poke, ownership.New(leases), leases.Holder
	return nil
}
