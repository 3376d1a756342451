package records_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// letters keeps the notices that came.
type letters struct {
	mu  sync.Mutex
	all []wake.Notice
}

func (l *letters) take(letter wake.Letter) (int, string) {
	var n wake.Notice
	if err := json.Unmarshal(letter.Body, &n); err != nil {
		return 500, ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, n)
	return 200, ""
}

func (l *letters) wait(t *testing.T, n int) wake.Notice {
	t.Helper()
	require.True(t, soon(time.Minute, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.all) >= n
	}), "notice %d", n)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[n-1]
}

// S1-86, S1-93, register C28: an expired token is exchanged for one of the same epoch, while that is the current one, for a
// day; who shows it has to ask again with the new one.
func TestToken_ExpiredOneIsExchangedWithinItsEpoch(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "clock", sluice.Policy{}, 1)
	var came letters
	s.post = came.take
	var ahead atomic.Int64
	n, err := s.node(store, true, func(_ *wake.Deps, o *wake.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	require.NoError(t, err)
	t.Cleanup(n.stop)
	_, err = s.append("/a/1")
	require.NoError(t, err)
	first := came.wait(t, 1)
	call := func(token, body string) (model.WakeAnswer, sluice.Code) {
		answer, err := n.engine.Call(t.Context(), "clock", first.ConsumerID, token, []byte(body))
		if err == nil {
			return answer, ""
		}
		return answer, sluice.CodeOf(err)
	}
	heartbeat := fmt.Sprintf(`{"epoch":%d}`, first.Epoch)
	answer, code := call(first.Token, heartbeat)
	require.Empty(t, code)
	require.Equal(t, first.Token, answer.Token)

	_, code = call(first.Token, fmt.Sprintf(`{"epoch":%d,"done":true,"acks":[{"path":"/a/1","offset":%q}]}`, first.Epoch, s.streams.FormatOffset(1)))
	require.Empty(t, code)

	ahead.Store(int64(58 * time.Minute)) // a lease would have expired
	renewed, code := call(first.Token, heartbeat)
	require.Empty(t, code, "of the epoch that ended, too, while there is no other")
	require.NotEqual(t, first.Token, renewed.Token, "it is about to expire")

	ahead.Store(int64(61 * time.Minute))
	expired, code := call(first.Token, heartbeat)
	require.Equal(t, sluice.WakeTokenExpired, code)
	require.NotEmpty(t, expired.Token)
	answer, code = call(expired.Token, heartbeat)
	require.Empty(t, code)
	require.Equal(t, []model.WakeAcked{{Path: "/a/1", Offset: s.streams.FormatOffset(1)}}, answer.Streams)

	ahead.Store(int64(27 * time.Hour))
	late, code := call(first.Token, heartbeat)
	require.Equal(t, sluice.WakeTokenExpired, code)
	require.Empty(t, late.Token)

	ahead.Store(int64(61 * time.Minute))
	_, err = s.append("/a/1")
	require.NoError(t, err)
	second := came.wait(t, 2)
	require.Equal(t, first.Epoch+1, second.Epoch)
	late, code = call(first.Token, heartbeat)
	require.Equal(t, sluice.WakeStale, code, "it would bring a worker back that was replaced")
	require.Empty(t, late.Token)
	_, code = call(strings.ToUpper(first.Token), heartbeat)
	require.Equal(t, sluice.WakeTokenInvalid, code)
}
