package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Approvals stores approvals by the names of their modules.
type Approvals interface {
	// Get returns an approval and its revision. Code NotFound.
	Get(ctx context.Context, name string) (Approval, uint64, error)
	// Put stores an approval and returns its revision. Code Conflict unless the stored revision is
	// the given one; 0 means that none is stored.
	Put(ctx context.Context, name string, a Approval, revision uint64) (uint64, error)
	// Delete removes an approval. Code Conflict unless the stored revision is the given one.
	Delete(ctx context.Context, name string, revision uint64) error
}

// Subscriptions creates and ends the subscriptions of handlers.
type Subscriptions interface {
	// The methods with first call it in each of their tries, and return its error. They leave a
	// subscription as it is that is not the module's.
	PutHandler(ctx context.Context, id string, req *subscription.Request, by string, first func() error) (*sluice.Subscription, error)
	PauseHandler(ctx context.Context, name, id, by string, first func() error) error
	SuspendHandler(ctx context.Context, name, id, reason string, first func() error) error
	DeleteHandler(ctx context.Context, name, id, by string, first func() error) error
	// Get returns a subscription. Code SubscriptionMissing.
	Get(ctx context.Context, id string) (*sluice.Subscription, error)
}

// Teller publishes system events.
type Teller interface {
	Tell(ctx context.Context, namespace string, e model.SystemEvent) error
}

// Deps are a service's dependencies.
type Deps struct {
	Host          *Host
	Approvals     Approvals
	Subscriptions Subscriptions
	Ledger        *ledger.Ledger
	Teller        Teller
	Marks         Marks
	Now           func() time.Time

	// Serves returns the ID of the server that holds the lease of a key; "" if none does. nil:
	// leases are unknown.
	Serves func(ctx context.Context, key string) (string, error)
}

// Service approves and disables modules, and stops unsafe ones. It is safe for concurrent use, also
// on several servers: it stores approvals by compare-and-set.
type Service struct {
	Deps

	marked *marked
}

// NewService returns a service. Its Run stops unsafe modules.
func NewService(deps Deps) *Service { return &Service{Deps: deps, marked: newMarked()} }

// Modules returns the modules of this server as of a scan that is at most a second old.
func (s *Service) Modules(ctx context.Context) sluice.ModuleList {
	s.Host.Refresh(ctx)
	return sluice.ModuleList{Host: s.Host.InForce(), Modules: s.Host.List()}
}

// Module returns a module as it is now, with the server that serves its subscriptions. Code
// NotFound.
func (s *Service) Module(ctx context.Context, name string) (sluice.Module, error) {
	s.Host.LookAt(ctx, name)
	m, err := s.Host.Get(name)
	if err == nil && s.Serves != nil {
		m.ServedBy = s.servedBy(ctx, name)
	}
	return m, err
}

// servedBy returns the ID of the server that serves the subscriptions of a module; "" if none does,
// or the store does not respond within a second.
func (s *Service) servedBy(ctx context.Context, name string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	server, err := s.Serves(ctx, model.LeaseOfModule(name))
	if err != nil {
		s.Host.opts.Log.WarnContext(ctx, "lease of module not known", slog.String("module", name), slog.Any("error", err))
	}
	return server
}

// Approve permits the programs of a module to run on events, if its files have the digest. It
// creates the subscriptions of the module, or changes and resumes them. The caller owns them.
// Codes: NotFound; Unprocessable if it is not loaded; RevisionMismatch if its files have another
// digest; Forbidden if it handles system events and the caller is not root (S4-33); those of
// creating a subscription. Approving again resumes subscriptions and clears the mark of an unsafe
// module. After an error the approval may be stored and some subscriptions missing: repeat it. Code
// Conflict if the approval was changed concurrently; RevisionMismatch also if the files change
// meanwhile: then the subscriptions are suspended.
func (s *Service) Approve(ctx context.Context, name, digest, by string) (sluice.Module, error) {
	m, err := s.found(ctx, name, digest)
	if err != nil {
		return sluice.Module{}, err
	}
	system := slices.ContainsFunc(m.Manifest.Handlers, func(h module.Handler) bool { return h.System })
	if system && !model.CallerFrom(ctx).Unbounded() {
		return sluice.Module{}, sluice.Errorf(sluice.Forbidden, "module %q handles system events: only root may approve it", name)
	}
	before, err := s.stored(ctx, name)
	if err != nil {
		return sluice.Module{}, err
	}
	after := Approval{Digest: m.Digest, Files: listed(m.Files), By: by, At: s.Now().UTC()}
	requests, err := requests(m)
	if err != nil {
		return sluice.Module{}, err
	}
	for _, one := range requests {
		after.Subscriptions = append(after.Subscriptions, one.ID)
	}
	approve := act{name, sluice.ActionModuleApprove, by}
	// Subscriptions of removed handlers end first, while an approval still lists them. New ones come
	// after the approval: they would fail their first attempts before their program may run.
	if before != nil {
		if err := s.end(ctx, name, by, before, before.dropped(&after)); err != nil {
			return sluice.Module{}, err
		}
	}
	if err := s.enterApproval(ctx, approve, before, &after); err != nil {
		return sluice.Module{}, err
	}
	s.Host.setFound(ctx, name, &after)
	err = s.put(ctx, name, &after, requests)
	if err != nil {
		err = errors.Join(err, s.giveWay(ctx, name, &after))
	}
	s.Host.reportAgain(name) // the subscriptions may have been resumed after a report
	if _, changed := s.found(ctx, name, digest); err == nil {
		err = changed
	}
	if err != nil {
		return sluice.Module{}, err
	}
	if err := s.tell(ctx, name, onceFor(&after), sluice.TypeModuleEnabled, map[string]any{"digest": m.Digest, "by": by}); err != nil {
		return sluice.Module{}, err
	}
	return s.Host.Get(name)
}

// found returns a module with a digest, as it is now. Codes NotFound; Unprocessable if it is not
// loaded; RevisionMismatch if its files have another digest.
func (s *Service) found(ctx context.Context, name, digest string) (*module.Module, error) {
	s.Host.LookAt(ctx, name)
	m, err := s.Host.Found(name)
	if err == nil && digest != m.Digest { // not a secret: of files
		err = sluice.Errorf(sluice.RevisionMismatch, "module %q has the digest %s, not %s; check its files again", name, m.Digest, digest).With("digest", m.Digest)
	}
	return m, err
}

// stored returns the approval of a module, nil if it has none.
func (s *Service) stored(ctx context.Context, name string) (*Approval, error) {
	a, revision, err := s.Approvals.Get(ctx, name)
	if sluice.CodeOf(err) == sluice.NotFound {
		return nil, nil //nolint:nilnil // it has none
	}
	a.Revision = revision
	return &a, err
}

// act is a change of a module's approval.
type act struct{ module, action, by string }

// store replaces the approval before by after, with an entry in the ledger. A nil approval stands
// for none.
func (s *Service) store(ctx context.Context, a act, before, after *Approval) error {
	change, revision := ledger.Change{Actor: a.by, Resource: a.module, Action: a.action}, before.revision()
	if before != nil {
		change.Old = before.public()
	}
	if after != nil {
		change.New = after.public()
	}
	intent, err := s.Ledger.Intend(ctx, nil, change)
	if err != nil {
		return err
	}
	if after == nil {
		err = s.Approvals.Delete(ctx, a.module, revision)
	} else {
		after.Revision, err = s.Approvals.Put(ctx, a.module, *after, revision)
	}
	if err != nil {
		intent.Fail(ctx, err)
		return fmt.Errorf("store approval of module %s: %w", a.module, err)
	}
	return nil
}

// revision returns the revision of a stored approval; 0 if it is nil.
func (a *Approval) revision() uint64 {
	if a == nil {
		return 0
	}
	return a.Revision
}

// public returns the form of an approval for the ledger, without its files.
func (a *Approval) public() any {
	return struct {
		Digest        string   `json:"digest"`
		Disabled      bool     `json:"disabled,omitempty"`
		Unsafe        *Unsafe  `json:"unsafe,omitempty"`
		Subscriptions []string `json:"subscriptions"`
	}{a.Digest, a.Disabled, a.Unsafe, a.Subscriptions}
}

// Disable stops the programs of a module. Its subscriptions pause, and keep their positions in the
// log. Codes NotFound if it is not approved; Conflict if the approval was changed concurrently: then
// that change stands. Attempts in flight continue to their end. Repeating it is no error, and
// publishes no second event.
func (s *Service) Disable(ctx context.Context, name, by string) (sluice.Module, error) {
	before, err := s.approved(ctx, name)
	if err != nil {
		return sluice.Module{}, err
	}
	after := *before
	if !before.Disabled {
		after.Disabled = true
		if err := s.store(ctx, act{name, sluice.ActionModuleDisable, by}, before, &after); err != nil {
			return sluice.Module{}, err
		}
	}
	err = s.pause(ctx, name, &after, by)
	s.Host.Set(ctx, name, &after) // also after an error
	if err != nil {
		return sluice.Module{}, err
	}
	if err := s.tell(ctx, name, onceFor(&after), sluice.TypeModuleDisabled, map[string]any{"by": by}); err != nil {
		return sluice.Module{}, err
	}
	return s.Host.Get(name)
}

// put creates the subscriptions of an approved module, or changes and resumes them. Code Conflict
// unless the approval stands.
func (s *Service) put(ctx context.Context, name string, a *Approval, requests []*subscription.Request) error {
	stands := s.stands(ctx, name, a)
	for _, one := range requests {
		if _, err := s.Subscriptions.PutHandler(ctx, one.ID, one, a.By, stands); err != nil {
			return fmt.Errorf("subscription of handler %s: %w", one.ID, err)
		}
	}
	return stands()
}

// pause pauses the active subscriptions of a module. Code Conflict unless the approval stands.
func (s *Service) pause(ctx context.Context, name string, a *Approval, by string) error {
	stands := s.stands(ctx, name, a)
	for _, id := range a.Subscriptions {
		if err := s.Subscriptions.PauseHandler(ctx, name, id, by, stands); err != nil {
			return fmt.Errorf("pause subscription %s: %w", id, err)
		}
	}
	return stands()
}

// suspend suspends the active subscriptions of a module. Code Conflict unless the approval stands.
func (s *Service) suspend(ctx context.Context, name string, a *Approval, reason string) error {
	stands := s.stands(ctx, name, a)
	for _, id := range a.Subscriptions {
		if err := s.Subscriptions.SuspendHandler(ctx, name, id, reason, stands); err != nil {
			return fmt.Errorf("suspend subscription %s: %w", id, err)
		}
	}
	return stands()
}

// approved returns the approval of a module. Code NotFound.
func (s *Service) approved(ctx context.Context, name string) (*Approval, error) {
	a, err := s.stored(ctx, name)
	if err == nil && a == nil {
		err = sluice.Errorf(sluice.NotFound, "module %q is not approved", name)
	}
	return a, err
}

// Remove ends the approval of a module, and deletes its subscriptions. Codes NotFound if it is not
// approved; Conflict if the approval was changed concurrently: then that change stands. It deletes
// the subscriptions before the approval, so that it can be repeated after an error, and those that an
// approval made meanwhile after it. The files of the module stay.
func (s *Service) Remove(ctx context.Context, name, by string) error {
	before, err := s.approved(ctx, name)
	if err != nil {
		return err
	}
	remove := act{name, sluice.ActionModuleRemove, by}
	if err := s.end(ctx, name, by, before, before.Subscriptions); err != nil {
		return err
	}
	if err := s.store(ctx, remove, before, nil); err != nil {
		return err
	}
	s.Host.Set(ctx, name, nil)
	return errors.Join(
		s.giveWay(ctx, name, before),
		s.tell(ctx, name, onceFor(before)+"/removed", sluice.TypeModuleDisabled, map[string]any{"by": by}),
	)
}

// end deletes subscriptions of a module. Code Conflict unless the approval stands; nil stands for
// none.
func (s *Service) end(ctx context.Context, name, by string, before *Approval, ids []string) error {
	stands := s.stands(ctx, name, before)
	for _, id := range ids {
		if err := s.Subscriptions.DeleteHandler(ctx, name, id, by, stands); err != nil {
			return fmt.Errorf("delete subscription %s: %w", id, err)
		}
	}
	return nil
}

// onceFor returns the part of an event's ID that is unique to a stored approval.
func onceFor(a *Approval) string { return strconv.FormatUint(a.Revision, 10) }

// tell publishes a system event about a module, once for each value of once.
func (s *Service) tell(ctx context.Context, name, once, kind string, data map[string]any) error {
	data["module"] = name
	return s.Teller.Tell(ctx, sluice.DefaultNamespace, model.SystemEvent{
		Path: sluice.ModulePath(name), Kind: kind, Data: data, ID: fmt.Sprintf("%s/%s/%s", kind, name, once),
	})
}

// Changed suspends the subscriptions of a module whose files have changed. Use it as
// Options.Changed. It may be called on each server that has the changed files; suspending twice
// does nothing. Code Conflict, and nothing happens, if the approval is not the stored one any more:
// ask again with the stored one.
func (s *Service) Changed(ctx context.Context, name string, a Approval, files []string) error {
	if err := s.suspend(ctx, name, &a, ChangedReason(name, files)); err != nil {
		return err
	}
	return s.tell(ctx, name, onceFor(&a), sluice.TypeModuleChanged, map[string]any{"files": files})
}

// requests returns the requests for the subscriptions of a module. Code Unprocessable if two
// subscriptions would have the same ID.
func requests(m *module.Module) ([]*subscription.Request, error) {
	var all []*subscription.Request
	for _, h := range m.Manifest.Handlers {
		text, err := json.Marshal(h.Filter)
		if err != nil {
			return nil, fmt.Errorf("filter of handler %s: %w", h.ID, err)
		}
		for _, ns := range m.Manifest.Namespaces {
			policy, id := h.Policy, SubscriptionID(m.Name, h.ID, ns)
			if slices.ContainsFunc(all, func(other *subscription.Request) bool { return other.ID == id }) {
				return nil, sluice.Errorf(sluice.Unprocessable, "two handlers would have the subscription %q; give one of them another id", id)
			}
			all = append(all, &subscription.Request{
				ID: id, Module: m.Name, Namespace: ns, Pattern: h.Pattern, Filter: text, Policy: &policy,
				Endpoint: h.Sink(), Description: "module " + m.Name + ", handler " + h.ID,
			})
		}
	}
	return all, nil
}

// maxID is the maximum length of a subscription's ID, in bytes.
const maxID = 64

// SubscriptionID returns the ID of a handler's subscription: "<module>-<handler>", and the
// namespace if it is not the default one. An ID that would exceed maxID is cut and ends in a hash.
func SubscriptionID(name, handler, namespace string) string {
	parts := []string{name, handler}
	if namespace != sluice.DefaultNamespace {
		parts = append(parts, namespace)
	}
	id := strings.Join(parts, "-")
	if len(id) <= maxID {
		return id
	}
	hash := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return id[:maxID-17] + "-" + hex.EncodeToString(hash[:8])
}
