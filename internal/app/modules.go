package app

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/module/host"
	"github.com/sluice-io/sluice/internal/module/program"
	"github.com/sluice-io/sluice/internal/natsstore/records"
)

// openModules constructs the host of modules.
func (s *server) openModules(ctx context.Context) error {
	as, err := userOf(s.cfg.Modules.User)
	if err != nil {
		return err
	}
	if as == nil && len(s.cfg.Modules.Dirs) > 0 && os.Geteuid() == 0 {
		s.opts.Log.WarnContext(ctx, "programs of modules run as root; set modules.user")
	}
	data, err := filepath.Abs(s.cfg.Data)
	if err != nil {
		return fmt.Errorf("modules: %w", err)
	}
	approvals := records.NewModules(s.store)
	s.moduleService = &host.Service{
		Approvals: approvals, Subscriptions: s.registry, Ledger: s.ledger, Teller: records.Teller{Log: s.log}, Now: time.Now,
	}
	s.modules = host.New(host.Options{
		Dirs: s.cfg.Modules.Dirs, Copies: filepath.Join(data, "modules"), User: as, Log: s.opts.Log, Render: s.sender, Changed: s.moduleService.Changed,
	})
	s.moduleService.Host = s.modules
	return s.modules.Open()
}

// userOf returns the user of a name that programs run as; nil: the server's.
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
	return &program.User{UID: uint32(uid), GID: uint32(gid)}, nil
}

// followModules follows the approvals of modules.
func (s *server) followModules(ctx context.Context) error {
	return records.NewModules(s.store).Watch(ctx, func(name string, a *host.Approval) { s.modules.Set(ctx, name, a) })
}

// attemptSender returns the sender of attempts.
func (s *server) attemptSender() host.Sender {
	return host.Sender{Programs: s.modules, Requests: s.sender}
}
