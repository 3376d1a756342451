package httpapi

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi/access"
	"github.com/sluice-io/sluice/internal/httpapi/admin"
	"github.com/sluice-io/sluice/internal/httpapi/enrichment"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/httpapi/live"
	"github.com/sluice-io/sluice/internal/httpapi/mirrors"
	"github.com/sluice-io/sluice/internal/httpapi/schedules"
	"github.com/sluice-io/sluice/internal/httpapi/watches"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// jsonFields returns the names of a struct's fields in JSON, those of embedded structs included.
func jsonFields(kind reflect.Type) []string {
	var fields []string
	for field := range kind.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			fields = append(fields, jsonFields(field.Type)...)
		case name != "-" && field.IsExported():
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	return fields
}

func TestOpenAPI_SchemasHaveTheFieldsOfTheBodies(t *testing.T) {
	t.Parallel()
	doc := document(t)
	tests := []struct {
		body    any
		schemas []string
		also    []string // in the schema only
	}{
		{product{}, []string{"Product"}, nil},
		{sluice.Namespace{}, []string{"Namespace"}, nil},
		{namespaceRequest{}, []string{"NamespaceRequest"}, nil},
		{sluice.EventType{}, []string{"EventType"}, nil},
		{eventTypeRequest{}, []string{"EventTypeRequest"}, nil},
		{sluice.Watch{}, []string{"Watch"}, nil},
		{watches.Request{}, []string{"WatchRequest"}, nil},
		{sluice.Retention{}, []string{"Retention"}, nil},
		{sluice.Quota{}, []string{"Quota"}, nil},
		{sluice.Storage{}, []string{"Storage"}, nil},
		{sluice.Stored{}, []string{"Stored"}, nil},
		{sluice.ObservePage{}, []string{"ObservePage"}, nil},
		{sluice.Hop{}, []string{"Hop"}, nil},
		{schedules.Held{}, []string{"Held"}, nil},
		{schedules.AppointmentRequest{}, []string{"AppointmentRequest"}, nil},
		{sluice.Action{}, []string{"Action"}, nil},
		{sluice.Appointment{}, []string{"Appointment"}, nil},
		{sluice.AppointmentEnd{}, []string{"AppointmentEnd"}, nil},
		{feed.Lagged{}, []string{"Lagged"}, nil},
		{live.Ticket{}, []string{"FeedTicket"}, nil},
		{live.TicketRequest{}, []string{"FeedTicketRequest"}, nil},
		{sluice.Filter{}, []string{"Filter"}, nil},
		{sluice.Endpoint{}, []string{"Endpoint"}, nil},
		{sluice.Policy{}, []string{"Policy"}, nil},
		{sluice.Subscription{}, []string{"Subscription"}, []string{"secret"}},
		{subscription.Request{}, []string{"SubscriptionRequest", "TargetRequest"}, nil},
		{batchResult{}, []string{"BatchResult"}, nil},
		{httpkit.FailureError{}, []string{"ErrorDescription"}, nil},
		{sluice.Verdict{}, []string{"Verdict"}, nil},
		{sluice.Attempt{}, []string{"Attempt"}, nil},
		{sluice.Rate{}, []string{"Rate"}, nil},
		{sluice.Replay{}, []string{"Replay"}, nil},
		{explain.Delivery{}, []string{"Delivery"}, nil},
		{deadLetter{}, []string{"DeadLetter"}, nil},
		{redriveRequest{}, []string{"RedriveRequest"}, nil},
		{redrive{}, []string{"Redrive"}, nil},
		{sluice.Parked{}, []string{"ParkedLane"}, nil},
		{sluice.Status{}, []string{"Status"}, nil},
		{eventDeliveries{}, []string{"EventDeliveries"}, nil},
		{storyEvent{}, []string{"StoryEvent"}, nil},
		{eventDelivery{}, []string{"Delivery", "EventDelivery"}, nil},
		{sluice.SubscriptionHealth{}, []string{"SubscriptionHealth"}, nil},
		{sluice.Statistics{}, []string{"Statistics"}, nil},
		{sluice.Problem{}, []string{"Problem"}, nil},
		{sluice.ProblemChange{}, []string{"ProblemChange"}, nil},
		{sluice.StatisticsPoint{}, []string{"StatisticsPoint"}, nil},
		{sluice.Sparkline{}, []string{"Sparkline"}, nil},
		{sluice.Overview{}, []string{"Overview"}, nil},
		{wakeRequest{}, []string{"WakeSubscriptionRequest"}, nil},
		{enrichment.Request{}, []string{"EnrichmentRequest"}, nil},
		{sluice.Enrichment{}, []string{"Enrichment"}, nil},
		{sluice.Job{}, []string{"Job"}, nil},
		{sluice.EntryRef{}, []string{"EntryRef"}, nil},
		{sluice.Neighbour{}, []string{"Neighbour"}, nil},
		{sluice.Review{}, []string{"Review"}, nil},
		{sluice.Comparison{}, []string{"Comparison"}, nil},
		{wakeSubscription{}, []string{"WakeSubscription"}, nil},
		{wakeSubscriptionList{}, []string{"WakeSubscriptionList"}, nil},
		{sluice.WakeConsumer{}, []string{"WakeConsumer"}, nil},
		{sluice.WakeStream{}, []string{"WakeStream"}, nil},
		{model.WakeAcked{}, []string{"WakeAcked"}, nil},
		{called{}, []string{"CallbackAnswer"}, nil},
		{refused{}, []string{"CallbackRefusal"}, nil},
		{sluice.LedgerEntry{}, []string{"LedgerEntry"}, nil},
		{sluice.Unsafe{}, []string{"UnsafeProducer"}, nil},
		{sluice.Link{}, []string{"Link"}, nil},
		{capabilityList{}, []string{"Capabilities"}, nil},
		{sluice.SigningKey{}, []string{"SigningKey"}, nil},
		{admin.RotateKeyRequest{}, []string{"RotateKeyRequest"}, nil},
		{sluice.Sealing{}, []string{"Sealing"}, nil},
		{sluice.SealingKey{}, []string{"SealingKey"}, nil},
		{sluice.Label{}, []string{"Label"}, nil},
		{grants.Wish{}, []string{"GrantRequest"}, nil},
		{sluice.Grant{}, []string{"Grant"}, nil},
		{grants.Minted{}, []string{"Grant", "Minted"}, nil},
		{grants.Verification{}, []string{"Verification"}, nil},
		{sluice.Access{}, []string{"Access"}, nil},
		{access.ACL{}, []string{"ACL"}, nil},
		{sluice.Profile{}, []string{"Profile"}, nil},
		{sluice.Tombstone{}, []string{"Tombstone"}, nil},
		{sluice.MirrorStatus{}, []string{"MirrorStatus"}, nil},
		{sluice.BundleImport{}, []string{"BundleImport"}, nil},
		{mirrors.Arrived{}, []string{"BundleArrival"}, nil},
		{sluice.MirrorFork{}, []string{"MirrorFork"}, nil},
		{bundle.Header{}, []string{"Bundle"}, []string{"entries", "signature"}},
		{bundle.JWK{}, []string{"BundleKey"}, nil},
		{bundle.TrustedKey{}, []string{"TrustedKey"}, nil},
	}
	for _, tt := range tests {
		want := append(jsonFields(reflect.TypeOf(tt.body)), tt.also...)
		var got []string
		for _, name := range tt.schemas {
			properties, ok := dig(t, doc, "components", "schemas", name, "properties").(map[string]any)
			require.True(t, ok)
			got = append(got, slices.Collect(maps.Keys(properties))...)
		}
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(t, want, slices.Compact(got), tt.schemas)
	}
}
