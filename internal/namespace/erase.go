package namespace

import (
	"context"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Log deletes the events of paths.
type Log interface {
	// LastSeq returns the sequence of the last event of a namespace. Code NotFound.
	LastSeq(ctx context.Context, namespace string) (uint64, error)
	// ErasePath deletes the events on a path up to a sequence, and records which they were.
	ErasePath(ctx context.Context, namespace string, path sluice.Path, upTo uint64) error
}

// Blocker stores the tombstones of paths.
type Blocker interface {
	// Erase blocks the events on a path up to a sequence. When it returns, every replica blocks them.
	Erase(ctx context.Context, by sluice.Caller, namespace string, path sluice.Path, upTo uint64) (sluice.Tombstone, error)
}

// Index has the stored access records.
type Index interface {
	Records(wanted func(authz.Record) bool) map[string]authz.Record
}

// Eraser erases paths.
type Eraser struct {
	Log       Log
	Authority Blocker
	Index     Index
}

// Erase blocks all events on the path from being sent, and then deletes them. A record of each
// event, with its id, stays in the log, so that namespaces that follow the log delete it as well
// (S3-57).
func (e Eraser) Erase(ctx context.Context, by sluice.Caller, namespace string, path sluice.Path) (sluice.Tombstone, error) {
	last, err := e.Log.LastSeq(ctx, namespace)
	if err != nil {
		return sluice.Tombstone{}, err
	}
	stone, err := e.Authority.Erase(ctx, by, namespace, path, last)
	if err != nil {
		return stone, err
	}
	return stone, e.Log.ErasePath(ctx, namespace, path, stone.UpTo)
}

// Tombstones returns the tombstones of a namespace, ordered by path.
func (e Eraser) Tombstones(namespace string) []sluice.Tombstone {
	all := []sluice.Tombstone{}
	for _, r := range e.Index.Records(func(r authz.Record) bool {
		return r.Tombstone != nil && r.Tombstone.Namespace == namespace && r.Tombstone.UpTo > 0
	}) {
		all = append(all, *r.Tombstone)
	}
	slices.SortFunc(all, func(a, b sluice.Tombstone) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return all
}
