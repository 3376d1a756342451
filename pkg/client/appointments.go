package client

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// AppointmentSpec says what an appointment is about.
type AppointmentSpec struct {
	At         time.Time         `json:"at,omitzero"`
	Every      sluice.Duration   `json:"every,omitzero"`        // after which it fires again; it fires once
	Cron       string            `json:"cron,omitempty"`        // when it fires again and again, in five fields; in place of At and Every
	TimeZone   string            `json:"time_zone,omitempty"`   // in which Cron is read, such as Europe/Berlin; UTC
	Notice     sluice.Duration   `json:"notice,omitzero"`       // how long before it is told that it approaches; it is not
	MissPolicy sluice.MissPolicy `json:"miss_policy,omitempty"` // catch_up
	Grace      sluice.Duration   `json:"grace,omitzero"`        // of catch_up_within
	Action     sluice.Action     `json:"action"`
}

// PutAppointment makes an appointment, or changes the one with the id to what is given, and returns it. The same once more changes nothing. With a
// revision it is changed only if that is the stored one: code RevisionMismatch. Codes Conflict if it fires at the moment; QuotaExceeded.
func (c *Client) PutAppointment(ctx context.Context, namespace, id string, spec AppointmentSpec, revision uint64) (sluice.Appointment, error) {
	req := call{method: http.MethodPut, path: join(namespaces, namespace, "appointments", id)}
	if revision > 0 {
		req.header = map[string]string{"If-Match": strconv.Quote(strconv.FormatUint(revision, 10))}
	}
	return send[sluice.Appointment](ctx, c, req, spec)
}

// Appointments returns the appointments of a namespace, the next first. Limit and cursor may be zero; the cursor is Page.Next of the part
// before.
func (c *Client) Appointments(ctx context.Context, namespace string, limit int, cursor string) (Page[sluice.Appointment], error) {
	return list[sluice.Appointment](ctx, c, join(namespaces, namespace, "appointments"), "appointments", params("limit", number(limit), "cursor", cursor))
}

// GetAppointment returns an appointment. Code NotFound.
func (c *Client) GetAppointment(ctx context.Context, namespace, id string) (sluice.Appointment, error) {
	return send[sluice.Appointment](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace, "appointments", id)}, nil)
}

// CancelAppointment ends an appointment: when there is no error, one that waited never fires. Codes NotFound; Conflict if it fires at the moment.
func (c *Client) CancelAppointment(ctx context.Context, namespace, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(namespaces, namespace, "appointments", id)}, nil)
	return err
}
