package knowledge

import (
	"errors"
	"time"

	"github.com/sluice-io/sluice/internal/callbacktoken"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// tokenLife is the lifetime of a token. The lease usually ends earlier, after which the token is
// fenced.
const tokenLife = 24 * time.Hour

// badge is the content of a token: one claim of one job.
type badge struct {
	Job         string `json:"enriches"` // <namespace>/<job>
	Incarnation string `json:"incarnation"`
	Generation  uint64 `json:"generation"`
	Fingerprint string `json:"fingerprint"`

	callbacktoken.Term
}

// token returns the token of the current claim of a record.
func token(keys callbacktoken.Keys, c *Stored, r *Record, now time.Time) (string, error) {
	return callbacktoken.Sign(keys, badge{c.Namespace + "/" + r.ID, c.Incarnation, r.Generation, r.Fingerprint, callbacktoken.Until(now.Add(tokenLife))})
}

// readToken returns the content of a token for a job. Codes TokenInvalid; TokenExpired; Fenced if
// the enrichment was deleted and configured again since.
func readToken(keys callbacktoken.Keys, text string, c *Stored, id string, now time.Time) (badge, error) {
	b, err := callbacktoken.Read[badge](keys, text, now)
	switch {
	case b.Job != c.Namespace+"/"+id:
		return badge{}, sluice.Errorf(sluice.TokenInvalid, "the token was not issued for this job")
	case errors.Is(err, callbacktoken.ErrExpired):
		return badge{}, sluice.Errorf(sluice.TokenExpired, "the token has expired")
	case err == nil && b.Incarnation != c.Incarnation:
		return badge{}, sluice.Errorf(sluice.Fenced, "the enrichment was configured anew; claim again")
	}
	return b, err
}
