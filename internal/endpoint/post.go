package endpoint

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Reply is the outcome of a Post.
type Reply struct {
	Outcome    sluice.Outcome // Delivered, Gone, Failed; Refused: nothing was sent, and a retry would not send it either
	Status     int            // 0: there was no response
	Body       []byte         // the body of a 2xx, at most MaxResponse bytes
	Whole      bool           // Body is complete
	Error      string         // a short description, unless the outcome is Delivered
	Class      sluice.FailureClass
	RetryAfter time.Duration // requested by the endpoint; 0: none
}

// Post sends a body that is not an event to a URL, with the address checks of every attempt. It
// sends the headers unchanged, because the caller has signed the body. It takes at most timeout,
// which includes connecting, headers and body. If ctx is done, it ends as Send does. The caller
// must not change body until Post returns.
func (s *Sender) Post(ctx context.Context, url string, header http.Header, body []byte, timeout time.Duration) Reply {
	defer shutdown.Sending(ctx)()
	until := time.Now().Add(timeout)
	req, err := s.postRequest(ctx, url, header, int64(len(body)))
	if err != nil {
		return Reply{Outcome: sluice.Refused, Error: err.Error()}
	}
	var reply Reply
	err = s.exchange(ctx, call{req: req, body: body, until: until}, func(res *http.Response) (err error) {
		reply, err = s.reply(res)
		return err
	})
	if err != nil {
		return Reply{Outcome: sluice.Failed, Error: failure(ctx, err, timeout), Class: classOf(ctx, err)}
	}
	return reply
}

// postRequest returns a request without its body, which has size bytes.
func (s *Sender) postRequest(ctx context.Context, url string, header http.Header, size int64) (*http.Request, error) {
	u, err := s.checkURL(url)
	if err != nil {
		return nil, err
	}
	if size > s.opts.MaxBody {
		return nil, sluice.Errorf(sluice.TooLarge, "the request would be larger than webhooks.max_body, %d bytes", s.opts.MaxBody)
	}
	req := post(u, header.Clone())
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("User-Agent", s.agent)
	if s.opts.Trace != nil {
		s.opts.Trace(ctx, req.Header)
	}
	return req, nil
}

// reply returns the outcome of a response, as read does. It keeps the body only of a 2xx. An error
// means that the body of a 2xx is incomplete.
func (s *Sender) reply(res *http.Response) (Reply, error) {
	var a sluice.Attempt
	if res.StatusCode < 200 || res.StatusCode > 299 {
		if err := s.read(res, func() mask { return nil }, &a); err != nil {
			return Reply{}, err
		}
		return Reply{Outcome: a.Outcome, Status: a.Status, Error: a.Error, RetryAfter: a.RetryAfter}, nil
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, s.opts.MaxResponse+1))
	if err != nil {
		return Reply{}, err
	}
	kept := min(int64(len(data)), s.opts.MaxResponse)
	return Reply{Outcome: sluice.Delivered, Status: res.StatusCode, Body: data[:kept], Whole: kept == int64(len(data))}, nil
}
