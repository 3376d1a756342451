package authz

import (
	"math"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Index is the state of all access records at a revision. It is safe for concurrent use.
type Index struct {
	mu         sync.RWMutex
	records    map[string]Record // by key, for finding dependent records
	grants     map[string]*granted
	parts      map[string]map[string]struct{} // IDs of the grants derived from a grant
	lists      map[string]*list               // by namespace
	clearances map[sluice.Principal]sluice.Label
	labels     map[string]sluice.Label           // of namespaces
	tombstones map[string]map[sluice.Path]uint64 // by namespace and path: the sequence up to which events are erased
	// Unreadable has the keys of unreadable records that restrict a namespace, with the namespace's
	// name.
	unreadable map[string]string
	opened     map[string]struct{}              // namespaces open to anonymous callers
	replicas   map[string]uint64                // the revision that each replica enforces
	waits      map[string]map[*waiting]struct{} // by grant: requests that end with it
	applied    uint64
	caughtUp   bool
	changed    chan struct{} // closed at the next change
	until      time.Time     // deadline of decisions, unless always
	always     bool          // there is no deadline: the index decides whenever it has caught up
}

// granted is a grant in a form that is checked without allocation.
type granted struct {
	Granted

	verbs verbs
}

// verbs is a set of verbs; admin includes all others.
type verbs uint8

// list is a namespace's access list.
type list struct {
	closed bool
	of     map[sluice.Principal][]sluice.Access
}

// NewIndex returns an index that makes no decision before it has caught up.
func NewIndex() *Index {
	return &Index{
		records: map[string]Record{}, grants: map[string]*granted{}, parts: map[string]map[string]struct{}{}, lists: map[string]*list{},
		clearances: map[sluice.Principal]sluice.Label{}, labels: map[string]sluice.Label{},
		tombstones: map[string]map[sluice.Path]uint64{}, replicas: map[string]uint64{}, opened: map[string]struct{}{}, waits: map[string]map[*waiting]struct{}{}, unreadable: map[string]string{}, changed: make(chan struct{}), always: true,
	}
}

// Set applies a stored record.
func (x *Index) Set(key string, r Record, revision uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(key)
	x.records[key] = r
	if namespace := bounds(key); namespace != "" && r.Admins == nil && r.Label == nil && r.Tombstone == nil {
		x.unreadable[key] = namespace
	}
	x.enter(r, revision)
	x.note(revision)
}

// Remove applies the removal of a record.
func (x *Index) Remove(key string, revision uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(key)
	x.note(revision)
}

// CaughtUp marks that all stored records have been applied.
func (x *Index) CaughtUp() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.caughtUp = true
	x.note(0)
}

func (x *Index) note(revision uint64) {
	x.applied = max(x.applied, revision)
	close(x.changed)
	x.changed = make(chan struct{})
}

// Applied returns the current revision, and a channel that is closed when it changes.
func (x *Index) Applied() (revision uint64, changed <-chan struct{}) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.applied, x.changed
}

// Settled returns the revision that every replica enforces.
func (x *Index) Settled() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	least := uint64(math.MaxUint64)
	for _, settled := range x.replicas {
		least = min(least, settled)
	}
	return least
}

// Until sets the deadline of decisions: a replica that may miss revocations must not decide.
func (x *Index) Until(t time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.always, x.until = false, t
	x.note(0)
}

// Parts returns the number of grants derived from a grant, directly or indirectly, up to a maximum;
// for "", the number of grants issued by root.
func (x *Index) Parts(grant string, most int) (n int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if grant == "" {
		return len(x.parts[""])
	}
	todo := []string{grant}
	for len(todo) > 0 && n < most {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n += len(x.parts[next])
		for id := range x.parts[next] {
			todo = append(todo, id)
		}
	}
	return n
}

// Over returns the keys of grants that ended before a time and have no derived grants. Sessions are
// many, and have a time of their own.
func (x *Index) Over(before, session time.Time) (keys []string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for key, r := range x.records {
		if r.Grant == nil || len(x.parts[r.Grant.ID]) > 0 {
			continue
		}
		if end := r.Grant.ExpiresAt; end.Before(before) || r.Grant.Session && end.Before(session) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Ready returns an error (Unavailable) if permissions have not loaded.
func (x *Index) Ready(now time.Time) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.knows(now) {
		return unknown.err("", Target{})
	}
	return nil
}

// knowsOf reports whether all restrictions of a namespace are known. The caller holds the lock.
func (x *Index) knowsOf(namespace string) bool {
	for _, n := range x.unreadable { // usually empty
		if n == namespace {
			return false
		}
	}
	return true
}

// knows reports whether the index may decide. The caller holds the lock. Both clocks must be before
// the deadline: the monotonic clock stops while a machine is suspended, and the wall clock can
// jump.
func (x *Index) knows(now time.Time) bool {
	return x.caughtUp && (x.always || now.Before(x.until) && now.Round(0).Before(x.until.Round(0)))
}

func (x *Index) drop(key string) {
	r, ok := x.records[key]
	if !ok {
		return
	}
	delete(x.records, key)
	delete(x.unreadable, key)
	switch {
	case r.Grant != nil:
		delete(x.grants, r.Grant.ID)
		if delete(x.parts[r.Grant.Parent], r.Grant.ID); len(x.parts[r.Grant.Parent]) == 0 {
			delete(x.parts, r.Grant.Parent)
		}
	case r.ACL != nil:
		delete(x.list(r.ACL.Namespace).of, r.ACL.Principal)
	case r.Admins != nil:
		x.list(r.Admins.Namespace).closed = false
	case r.Profile != nil:
		delete(x.clearances, r.Profile.Principal)
	case r.Label != nil:
		delete(x.labels, r.Label.Namespace)
	case r.Tombstone != nil:
		delete(x.tombstones[r.Tombstone.Namespace], r.Tombstone.Path)
	case r.Replica != nil:
		delete(x.replicas, r.Replica.ID)
	}
}

func (x *Index) enter(r Record, revision uint64) {
	switch {
	case r.Grant != nil:
		g := &granted{Granted: *r.Grant, verbs: setOf(r.Grant.Verbs)}
		g.Revision = revision
		x.grants[g.ID] = g
		if x.parts[g.Parent] == nil {
			x.parts[g.Parent] = map[string]struct{}{}
		}
		x.parts[g.Parent][g.ID] = struct{}{}
		if g.RevokedAt != nil {
			x.stopWaiting()
		}
	case r.ACL != nil && len(r.ACL.Entries) > 0:
		x.list(r.ACL.Namespace).of[r.ACL.Principal] = r.ACL.Entries
	case r.Admins != nil:
		x.list(r.Admins.Namespace).closed = r.Admins.Closed
	case r.Profile != nil:
		x.clearances[r.Profile.Principal] = r.Profile.Clearance
	case r.Label != nil:
		x.labels[r.Label.Namespace] = r.Label.Label
	case r.Tombstone != nil && r.Tombstone.UpTo > 0:
		of := x.tombstones[r.Tombstone.Namespace]
		if of == nil {
			of = map[sluice.Path]uint64{}
			x.tombstones[r.Tombstone.Namespace] = of
		}
		of[r.Tombstone.Path] = r.Tombstone.UpTo
	case r.Replica != nil:
		x.replicas[r.Replica.ID] = r.Replica.Settled
	}
}

func (x *Index) list(namespace string) *list {
	l := x.lists[namespace]
	if l == nil {
		l = &list{of: map[sluice.Principal][]sluice.Access{}}
		x.lists[namespace] = l
	}
	return l
}

// Records returns the selected records with their keys.
func (x *Index) Records(pick func(Record) bool) map[string]Record {
	x.mu.RLock()
	defer x.mu.RUnlock()
	picked := map[string]Record{}
	for key, r := range x.records {
		if pick(r) {
			picked[key] = r
		}
	}
	return picked
}

// Label returns a namespace's label.
func (x *Index) Label(namespace string) sluice.Label {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.labels[namespace]
}

// Grant returns a grant. The second result is false if it is unknown.
func (x *Index) Grant(id string) (Granted, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	g, ok := x.grants[id]
	if !ok {
		return Granted{}, false
	}
	return g.Granted, true
}

func setOf(all []sluice.Verb) (set verbs) {
	for _, v := range all {
		if v == sluice.VerbAdmin {
			return 1<<len(sluice.Verbs()) - 1
		}
		set |= bit(v)
	}
	return set
}

func bit(v sluice.Verb) verbs {
	switch v {
	case sluice.VerbRead:
		return 1
	case sluice.VerbPublish:
		return 2
	case sluice.VerbSubscribe:
		return 4
	case sluice.VerbMirror:
		return 8
	case sluice.VerbAdmin:
		return 16
	}
	return 0
}

// has reports whether the set has the verb. No set has an unknown verb.
func (s verbs) has(v sluice.Verb) bool { return s&bit(v) != 0 }
