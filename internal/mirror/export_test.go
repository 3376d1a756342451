package mirror

import (
	"time"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// PagesOf is pagesOf, for the model of bundles.
var PagesOf = pagesOf

// NextOfBundle is nextOfBundle, for the model of bundles.
func (r Rule) NextOfBundle(held Held, page *sluice.ObservePage, since uint64, now time.Time) (Commit, error) {
	return r.nextOfBundle(held, page, since, now)
}

// Heard is heard, for the model of bundles.
func (p *Place) Heard(i bundle.Import, exported time.Time) { p.heard(i, exported) }
