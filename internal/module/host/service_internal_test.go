//go:build linux

package host

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// office has what a service stores, and publishes an event of each ID once.
type office struct {
	approval *Approval
	revision uint64
	subs     map[string]bool // true: active
	refuses  bool            // further subscriptions
	events   []string
	mark     sluice.Unsafe
	module   string   // of the subscriptions
	stopped  []string // subscriptions that were paused or suspended
	stopping func()   // before each look at the record for that, or for a deletion; nil: nothing
	putting  func()   // before each subscription is stored, after the look at the record; nil: nothing
	entering func()   // before the record is stored or deleted; nil: nothing
}

func (o *office) Get(ctx context.Context, _ string) (Approval, uint64, error) {
	if ctx.Err() != nil {
		return Approval{}, 0, ctx.Err()
	}
	if o.approval == nil {
		return Approval{}, 0, sluice.Errorf(sluice.NotFound, "it has none")
	}
	return *o.approval, o.revision, nil
}

func (o *office) Put(_ context.Context, _ string, a Approval, _ uint64) (uint64, error) {
	o.enter()
	o.revision++
	o.approval = &a
	return o.revision, nil
}

func (o *office) enter() {
	if o.entering != nil {
		o.entering()
	}
}

func (o *office) Delete(context.Context, string, uint64) error {
	o.enter()
	o.approval = nil
	return nil
}

func (*office) Append(context.Context, *sluice.LedgerEntry) error { return nil }

func (o *office) Mark(context.Context, string) (sluice.Unsafe, uint64, error) {
	if o.mark.Event.Type == "" {
		return sluice.Unsafe{}, 0, sluice.Errorf(sluice.NotFound, "it has none")
	}
	return o.mark, 1, nil
}

func (*office) ClearProducer(context.Context, string, string) error { return nil }

func (o *office) Tell(_ context.Context, _ string, e model.SystemEvent) error {
	if !slices.Contains(o.events, e.ID) {
		o.events = append(o.events, e.ID)
	}
	return nil
}

// handlers are the subscriptions of an office.
type handlers struct {
	Subscriptions
	*office
}

func (h handlers) PutHandler(_ context.Context, id string, _ *subscription.Request, _ string, first func() error) (*sluice.Subscription, error) {
	if _, ok := h.subs[id]; h.refuses && !ok {
		return nil, sluice.Errorf(sluice.QuotaExceeded, "too many")
	}
	if err := first(); err != nil {
		return nil, err
	}
	if h.putting != nil {
		h.putting()
	}
	h.subs[id] = true
	return &sluice.Subscription{ID: id}, nil
}

func (h handlers) PauseHandler(ctx context.Context, name, id, _ string, first func() error) error {
	return h.SuspendHandler(ctx, name, id, "", first)
}

func (h handlers) SuspendHandler(_ context.Context, name, id, _ string, first func() error) error {
	if !h.subs[id] || name != "billing" {
		return nil
	}
	if h.stopping != nil {
		h.stopping()
	}
	if err := first(); err != nil {
		return err
	}
	h.subs[id] = false
	h.stopped = append(h.stopped, id)
	return nil
}

func (h handlers) DeleteHandler(_ context.Context, name, id, _ string, first func() error) error {
	if name != "billing" {
		return nil
	}
	if h.stopping != nil {
		h.stopping()
	}
	if err := first(); err != nil {
		return err
	}
	delete(h.subs, id)
	return nil
}

func (h handlers) Get(_ context.Context, id string) (*sluice.Subscription, error) {
	sub := &sluice.Subscription{Lifecycle: sluice.Lifecycle{Module: h.module}}
	if h.subs[id] {
		sub.State = sluice.Active
	}
	return sub, nil
}

// serving returns a service of a host with the module billing.
func serving(t *testing.T) (*Service, *office, string) {
	t.Helper()
	dirs, o := t.TempDir(), &office{subs: map[string]bool{}, module: "billing"}
	writes(t, dirs, "billing", "exit 0")
	h := open(t, dirs, &reports{})
	s := NewService(Deps{
		Host: h, Approvals: o, Subscriptions: handlers{office: o}, Ledger: ledger.New(o, nil), Teller: o, Marks: o, Now: time.Now,
	})
	h.opts.Changed = s.Changed
	return s, o, filepath.Join(dirs, "billing", module.ManifestFile)
}

// twoNamespaces is a manifest with a handler that has two subscriptions.
const twoNamespaces = `{"namespaces":["default","acme"],"events":[{"eventType":"t","handler":"handlers/run","filter":{"projectScoped":true}}]}`

// approve approves the module billing as it is.
func approve(t *testing.T, s *Service) error {
	t.Helper()
	s.Host.LookAt(t.Context(), "billing")
	m, err := s.Host.Found("billing")
	require.NoError(t, err)
	_, err = s.Approve(t.Context(), "billing", m.Digest, "root")
	return err
}

// A repeated approval ends the subscriptions of removed handlers, too.
func TestApprove_RepetitionEndsRemovedHandlers(t *testing.T) {
	t.Parallel()
	s, o, manifest := serving(t)
	require.NoError(t, approve(t, s))
	require.Equal(t, map[string]bool{"billing-run": true}, o.subs)
	other := `{"events":[{"id":"new","eventType":"t","handler":"handlers/run","filter":{"projectScoped":true}}]}`
	require.NoError(t, os.WriteFile(manifest, []byte(other), 0o600))
	o.refuses = true
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(approve(t, s)))
	o.refuses = false
	require.NoError(t, approve(t, s))
	require.Equal(t, map[string]bool{"billing-new": true}, o.subs)
}

// Disabling a module and removing it are two events, however often the first is repeated.
func TestDisable_RepetitionIsOneEvent(t *testing.T) {
	t.Parallel()
	s, o, _ := serving(t)
	require.NoError(t, approve(t, s))
	o.events = nil
	for range 3 {
		_, err := s.Disable(t.Context(), "billing", "root")
		require.NoError(t, err)
	}
	require.Len(t, o.events, 1)
	require.NoError(t, s.Remove(t.Context(), "billing", "root"))
	require.Len(t, o.events, 2)
}

// The subscriptions of a module stop before its programs do, so no attempt is in vain.
func TestService_StopsSubscriptionsBeforePrograms(t *testing.T) {
	t.Parallel()
	for state, stop := range map[sluice.ModuleState]func(*Service, *office) error{
		sluice.ModuleDisabled: func(s *Service, _ *office) error {
			_, err := s.Disable(t.Context(), "billing", "root")
			return err
		},
		sluice.ModuleUnsafe: func(s *Service, o *office) error {
			o.mark.Event.Type = "t"
			return s.stopUnsafe(t.Context(), "billing")
		},
	} {
		s, o, _ := serving(t)
		require.NoError(t, approve(t, s))
		o.stopping = func() { require.Equal(t, []string{"billing"}, s.Host.Ready(), state) }
		require.NoError(t, stop(s, o))
		require.Equal(t, []string{"billing-run"}, o.stopped, state)
		require.Empty(t, s.Host.Ready(), state)
		require.Equal(t, state, s.Host.stateOf(t, "billing"))
	}
}

// A server that sees late that a module was approved again suspends nothing of it, or no more of it.
func TestChanged_LaterApprovalStands(t *testing.T) {
	t.Parallel()
	s, o, manifest := serving(t)
	require.NoError(t, os.WriteFile(manifest, []byte(twoNamespaces), 0o600))
	require.NoError(t, approve(t, s))
	earlier := s.Host.approvals["billing"]
	require.NoError(t, approve(t, s))
	o.events = nil
	require.Equal(t, sluice.Conflict, sluice.CodeOf(s.Changed(t.Context(), "billing", earlier, nil)), "so it is asked again")
	require.Empty(t, o.stopped)
	require.Empty(t, o.events)

	present := s.Host.approvals["billing"]
	o.stopping = func() { o.revision++ }
	require.Equal(t, sluice.Conflict, sluice.CodeOf(s.Changed(t.Context(), "billing", present, nil)))
	require.Empty(t, o.stopped, "it was approved meanwhile")
	require.Empty(t, o.events)

	o.stopping, o.stopped, o.revision = nil, nil, present.Revision
	require.NoError(t, s.Changed(t.Context(), "billing", present, nil))
	require.Equal(t, []string{"billing-run", "billing-run-acme"}, o.stopped)
	require.Len(t, o.events, 1)
}

// A module whose record changes while it is stopped as unsafe is stopped at the next try.
func TestStopUnsafe_ConcurrentChangeIsTriedAgain(t *testing.T) {
	t.Parallel()
	s, o, _ := serving(t)
	require.NoError(t, approve(t, s))
	o.mark.Event.Type = "t"
	o.stopping = func() { o.revision++ }
	require.Equal(t, sluice.Conflict, sluice.CodeOf(s.stopUnsafe(t.Context(), "billing")))
	require.Empty(t, o.stopped)
	o.stopping = nil
	require.NoError(t, s.stopUnsafe(t.Context(), "billing"))
	require.Equal(t, []string{"billing-run"}, o.stopped)

	o.events, o.subs["billing-run"], o.module = nil, true, "other"
	require.NoError(t, s.stopUnsafe(t.Context(), "billing"))
	require.Empty(t, o.events, "the active subscription is not the module's")
}

// A module that is approved while an admin disables it stays approved, and all of its subscriptions active.
func TestDisable_LaterApprovalStands(t *testing.T) {
	t.Parallel()
	s, o, manifest := serving(t)
	require.NoError(t, os.WriteFile(manifest, []byte(twoNamespaces), 0o600))
	require.NoError(t, approve(t, s))
	o.stopping = func() {
		if len(o.stopped) == 1 {
			o.events = nil
			require.NoError(t, approve(t, s))
		}
	}
	_, err := s.Disable(t.Context(), "billing", "root")
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	require.Equal(t, map[string]bool{"billing-run": true, "billing-run-acme": true}, o.subs)
	require.Equal(t, sluice.ModuleApproved, s.Host.stateOf(t, "billing"))
	require.Equal(t, []string{"module.enabled/billing/3"}, o.events)
}

// A module that is approved while an admin removes it keeps its approval, and has all of its subscriptions.
func TestRemove_LaterApprovalStands(t *testing.T) {
	t.Parallel()
	s, o, manifest := serving(t)
	require.NoError(t, os.WriteFile(manifest, []byte(twoNamespaces), 0o600))
	require.NoError(t, approve(t, s))
	o.stopping = func() {
		if len(o.subs) == 1 {
			o.stopping = nil
			require.NoError(t, approve(t, s))
		}
	}
	require.Equal(t, sluice.Conflict, sluice.CodeOf(s.Remove(t.Context(), "billing", "root")))
	require.Equal(t, map[string]bool{"billing-run": true, "billing-run-acme": true}, o.subs)
	require.Equal(t, sluice.ModuleApproved, s.Host.stateOf(t, "billing"))
}

// A module that is stopped or removed while it is approved stays so, and none of its subscriptions active.
func TestApprove_LaterStopStands(t *testing.T) {
	t.Parallel()
	for state, stop := range map[sluice.ModuleState]func(*Service, *office) error{
		sluice.ModuleDisabled: func(s *Service, _ *office) error {
			_, err := s.Disable(t.Context(), "billing", "root")
			return err
		},
		sluice.ModuleUnsafe: func(s *Service, o *office) error {
			o.mark.Event.Type = "t"
			return s.stopUnsafe(t.Context(), "billing")
		},
		sluice.ModuleFound: func(s *Service, _ *office) error { return s.Remove(t.Context(), "billing", "root") },
	} {
		for put := range 2 {
			s, o, manifest := serving(t)
			require.NoError(t, os.WriteFile(manifest, []byte(twoNamespaces), 0o600))
			o.putting = func() {
				if len(o.subs) == put {
					o.putting = nil
					require.NoError(t, stop(s, o))
					o.events = nil
				}
			}
			require.Equal(t, sluice.Conflict, sluice.CodeOf(approve(t, s)), state)
			for id, active := range o.subs {
				require.False(t, active, "%s %s", state, id)
			}
			if state == sluice.ModuleFound {
				require.Empty(t, o.subs)
			}
			require.Empty(t, o.events, state)
			require.Equal(t, state, s.Host.stateOf(t, "billing"))
		}
	}
}

// A later approval of other files is not overwritten by an earlier one.
func TestApprove_LaterApprovalStands(t *testing.T) {
	t.Parallel()
	s, o, _ := serving(t)
	o.putting = func() {
		o.putting = nil
		require.NoError(t, approve(t, s))
	}
	require.Equal(t, sluice.Conflict, sluice.CodeOf(approve(t, s)))
	require.Equal(t, map[string]bool{"billing-run": true}, o.subs)
	require.Equal(t, []string{"module.enabled/billing/2"}, o.events)
}

// Files that change while their approval is entered, or makes subscriptions, leave none of them active.
func TestApprove_ChangeOfFilesMeanwhileSuspends(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		put     int // number of subscriptions when the files change; -1: before the record is stored
		refuses bool
		code    sluice.Code
	}{
		"before the record": {-1, false, sluice.RevisionMismatch},
		"first":             {0, false, sluice.RevisionMismatch},
		"second":            {1, false, sluice.RevisionMismatch},
		"and it fails":      {0, true, sluice.QuotaExceeded},
	} {
		s, o, manifest := serving(t)
		require.NoError(t, os.WriteFile(manifest, []byte(twoNamespaces), 0o600))
		changes := func() {
			o.entering, o.refuses = nil, c.refuses
			require.NoError(t, os.WriteFile(manifest, []byte(oneHandler), 0o600))
			s.Host.Look(t.Context())
		}
		o.putting = func() {
			if len(o.subs) == c.put {
				o.putting = nil
				changes()
			}
		}
		if c.put < 0 {
			o.entering = changes
		}
		require.Equal(t, c.code, sluice.CodeOf(approve(t, s)), name)
		require.NotEmpty(t, o.subs, name)
		for id, active := range o.subs {
			require.False(t, active, "%s %s", name, id)
		}
		require.Equal(t, []string{"module.changed/billing/1"}, o.events, name)
		require.Equal(t, sluice.ModuleChanged, s.Host.stateOf(t, "billing"), name)
	}
}

// An approval that a later one with fewer handlers overtakes leaves no subscription that the later one does not list.
func TestApprove_OvertakenOneLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for state, then := range map[sluice.ModuleState]func(*Service){
		sluice.ModuleApproved: func(*Service) {},
		sluice.ModuleDisabled: func(s *Service) {
			_, err := s.Disable(t.Context(), "billing", "root")
			require.NoError(t, err)
		},
	} {
		s, o, manifest := serving(t)
		require.NoError(t, os.WriteFile(manifest, []byte(twoNamespaces), 0o600))
		o.putting = func() {
			if len(o.subs) == 1 {
				o.putting = nil
				require.NoError(t, os.WriteFile(manifest, []byte(oneHandler), 0o600))
				require.NoError(t, approve(t, s))
				then(s)
			}
		}
		changed := 0
		o.stopping = func() {
			if _, ok := o.subs["billing-run-acme"]; ok && o.putting == nil && changed == 0 {
				changed++
				o.revision++ // the record changes once more, so it must try again
			}
		}
		require.Equal(t, sluice.Conflict, sluice.CodeOf(approve(t, s)), state)
		require.Equal(t, map[string]bool{"billing-run": state == sluice.ModuleApproved}, o.subs, state)
		require.Equal(t, 1, changed, state)
		require.Equal(t, state, s.Host.stateOf(t, "billing"))
	}
}

// An approval that fails after the module was stopped leaves nothing active, even if the caller is gone.
func TestApprove_FailedOneOfStoppedModuleGivesWay(t *testing.T) {
	t.Parallel()
	s, o, manifest := serving(t)
	require.NoError(t, os.WriteFile(manifest, []byte(twoNamespaces), 0o600))
	s.Host.LookAt(t.Context(), "billing")
	m, err := s.Host.Found("billing")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	o.putting = func() {
		_, err := s.Disable(t.Context(), "billing", "root")
		require.NoError(t, err)
		o.refuses = true
		cancel()
	}
	_, err = s.Approve(ctx, "billing", m.Digest, "root")
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err))
	require.Equal(t, map[string]bool{"billing-run": false}, o.subs)
}

// A removal deletes the subscriptions, too, that a running approval makes before its record is deleted.
func TestRemove_EndsSubscriptionsMadeMeanwhile(t *testing.T) {
	t.Parallel()
	s, o, _ := serving(t)
	require.NoError(t, approve(t, s))
	m, err := s.Host.Found("billing")
	require.NoError(t, err)
	all, err := requests(m)
	require.NoError(t, err)
	a := s.Host.approvals["billing"]
	o.entering = func() { require.NoError(t, s.put(t.Context(), "billing", &a, all)) }
	require.NoError(t, s.Remove(t.Context(), "billing", "root"))
	require.Empty(t, o.subs)
	require.Equal(t, sluice.ModuleFound, s.Host.stateOf(t, "billing"))
}
