package reference_test

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

var errNoCall = errors.New("the client in Go does not have it")

// call makes the call of an operation. The page shows the cases as examples in Go, and a test makes each of them.
func call(ctx context.Context, c *client.Client, operation string) (any, error) {
	switch operation {
	case "readyz":
		return c.Ready(ctx)
	case "getCapabilities":
		return c.Capabilities(ctx)
	case "whoami":
		return c.WhoAmI(ctx)
	case "getStorage":
		return c.Storage(ctx)
	case "verifyStorage":
		return c.VerifyStorage(ctx)
	case "forgetStorageDamage":
		return nil, c.ForgetDamage(ctx)
	case "listModules":
		return c.Modules(ctx)
	case "getModule":
		return c.Module(ctx, "thumbnails")
	case "removeModule":
		return nil, c.RemoveModule(ctx, "thumbnails")
	case "approveModule":
		return c.ApproveModule(ctx, "thumbnails", "sha256:…")
	case "disableModule":
		return c.DisableModule(ctx, "thumbnails")
	case "listAudit":
		return c.Audit(ctx, client.AuditQuery{Resource: "orders"})
	case "listUnsafeProducers":
		return c.UnsafeProducers(ctx, "")
	case "clearUnsafeProducer":
		return nil, c.ClearProducer(ctx, "service:shop")
	case "listKeys":
		return c.Keys(ctx)
	case "listSettings":
		return c.Settings(ctx)
	case "rotateKey":
		return c.RotateKey(ctx, client.DefaultOverlap)
	case "getSealing":
		return c.Sealing(ctx)
	case "listNamespaces":
		return c.Namespaces(ctx, "")
	case "putNamespace":
		return c.PutNamespace(ctx, "acme", client.NamespaceSpec{Description: "events of Acme"})
	case "getNamespace":
		return c.Namespace(ctx, "acme")
	case "deleteNamespace":
		return nil, c.DeleteNamespace(ctx, "acme")
	case "listEventTypes":
		return c.EventTypes(ctx, "acme", "")
	case "getEventType":
		return c.EventType(ctx, "acme", "order.placed")
	case "putEventType":
		return c.PutEventType(ctx, "acme", "order.placed", client.EventTypeSpec{SummaryFields: []string{"total"}}, 0)
	case "deleteEventType":
		return nil, c.DeleteEventType(ctx, "acme", "order.placed")
	case "listWatches":
		return c.Watches(ctx, "acme", "")
	case "testWatch":
		return c.TestWatch(ctx, "acme", client.WatchSpec{
			Pattern: "/sensors/*", Filter: sluice.Filter{CEL: "event.data.celsius > 80"}, Action: sluice.Action{Path: "/alarms", Type: "alarm"},
		}, 1)
	case "getWatch":
		return c.Watch(ctx, "acme", "hot")
	case "putWatch":
		return c.PutWatch(ctx, "acme", "hot", client.WatchSpec{
			Pattern: "/sensors/*", Filter: sluice.Filter{CEL: "event.data.celsius > 80"}, Action: sluice.Action{Path: "/alarms", Type: "alarm"},
		})
	case "deleteWatch":
		return nil, c.DeleteWatch(ctx, "acme", "hot")
	case "createStream":
		stream, _, err := c.CreateStream(ctx, "acme", "/orders/42", client.StreamSpec{ContentType: "application/json"})
		return stream, err
	case "appendToStream":
		return c.AppendStream(ctx, "acme", "/orders/42", client.StreamAppend{ContentType: "application/json", Data: []byte(`{"total":118.5}`)})
	case "readStream":
		return c.ReadStream(ctx, "acme", "/orders/42", client.FromBeginning)
	case "headStream":
		return c.Stream(ctx, "acme", "/orders/42")
	case "deleteStream":
		return nil, c.DeleteStream(ctx, "acme", "/orders/42")
	case "publishEvents":
		return c.Publish(ctx, "acme", sluice.Event{Path: "/orders/42", Type: "order.placed", Data: []byte(`{"total":118.5}`)})
	case "listEvents":
		return c.Events(ctx, "acme", client.EventsQuery{Pattern: "/orders/**", Types: []string{"order.*"}})
	case "listItems":
		return c.Items(ctx, "acme", client.ItemsQuery{Limit: 100})
	case "followMirror":
		for item, err := range c.MirrorFeed(ctx, "acme", client.MirrorFeedQuery{Mirror: "partner"}) {
			return item, err
		}
	case "readMirrorStream":
		return c.ReadMirrorStream(ctx, "acme", "partner", client.FromBeginning)
	case "listTopics":
		return c.Topics(ctx, "acme", client.TopicsQuery{IncludeMirrored: true})
	case "exportBundle":
		document, _, err := c.ExportBundle(ctx, "acme", client.ExportQuery{})
		return document, err
	case "importBundle":
		return c.ImportBundle(ctx, "acme", []byte("{…}"), false)
	case "listBundleKeys":
		return c.BundleKeys(ctx, "acme")
	case "listTrustedKeys":
		return c.TrustedKeys(ctx, "acme")
	case "putTrustedKey":
		return c.TrustKey(ctx, "acme", client.BundleKey{Type: "OKP", Curve: "Ed25519", X: "…", KeyID: "…"}, "partner")
	case "deleteTrustedKey":
		return nil, c.DistrustKey(ctx, "acme", "…")
	case "putEnrichment":
		return c.PutEnrichment(ctx, "acme", client.EnrichmentSpec{Model: "small", Dimensions: 384}, 0)
	case "getEnrichment":
		return c.Enrichment(ctx, "acme")
	case "deleteEnrichment":
		return nil, c.DeleteEnrichment(ctx, "acme")
	case "claimJobs":
		return c.ClaimJobs(ctx, "acme", client.ClaimQuery{Worker: "worker-1", Wait: 30 * time.Second})
	case "listJobs":
		return c.Jobs(ctx, "acme", client.JobsQuery{State: "failed"})
	case "getJob":
		return c.Job(ctx, "acme", "job-1")
	case "renewJob":
		return c.RenewJob(ctx, client.JobClaim{Namespace: "acme", Job: "job-1", Token: "…"})
	case "completeJob":
		return nil, c.CompleteJob(ctx, client.JobClaim{Namespace: "acme", Job: "job-1", Token: "…"}, sluice.JobResult{Embedding: []float32{0.1, 0.2}})
	case "failJob":
		return c.FailJob(ctx, client.JobClaim{Namespace: "acme", Job: "job-1", Token: "…"}, "the model is overloaded", false)
	case "retryJob":
		return c.RetryJob(ctx, "acme", "job-1")
	case "search":
		return c.Search(ctx, "acme", client.SearchQuery{Entry: "entry-1"})
	case "listReviews":
		return c.Reviews(ctx, "acme", client.ReviewsQuery{NeedsReview: true})
	case "getComparisons":
		return c.Comparisons(ctx, "acme", "entry-1")
	case "observe":
		return c.Observe(ctx, "acme", client.ObserveQuery{Since: 0})
	case "getEvent":
		return c.Event(ctx, "acme", "o-42")
	case "listEventDeliveries":
		return c.EventDeliveries(ctx, "acme", "o-42", client.EventDeliveriesQuery{})
	case "listAttempts":
		return c.Attempts(ctx, "acme", client.AttemptsQuery{Subscription: "orders", Wait: 30 * time.Second})
	case "createFeedTicket":
		return c.FeedTicket(ctx, "acme", time.Minute)
	case "feed":
		for item, err := range c.Feed(ctx, "acme", client.FeedQuery{Pattern: "/orders/**"}) {
			return item, err
		}
	case "listState":
		return c.State(ctx, "acme", client.StateQuery{Pattern: "/orders/**"})
	case "getState":
		return c.StateOf(ctx, "acme", "/orders/42")
	case "listScheduled":
		return c.Scheduled(ctx, "acme", client.ScheduledQuery{Pattern: "/reminders/**"})
	case "getScheduled":
		return c.GetScheduled(ctx, "acme", "r-1")
	case "cancelScheduled":
		return nil, c.CancelScheduled(ctx, "acme", "r-1")
	case "listAppointments":
		return c.Appointments(ctx, "acme", 100, "")
	case "putAppointment":
		return c.PutAppointment(ctx, "acme", "daily", client.AppointmentSpec{
			Cron: "0 9 * * *", TimeZone: "Europe/Berlin", Action: sluice.Action{Path: "/reports", Type: "report.due"},
		}, 0)
	case "getAppointment":
		return c.GetAppointment(ctx, "acme", "daily")
	case "cancelAppointment":
		return nil, c.CancelAppointment(ctx, "acme", "daily")
	case "createPortalLink":
		return c.PortalLink(ctx, client.PortalLinkSpec{Principal: "user:ann", Object: &sluice.Object{Namespace: "acme", Pattern: "/orders/**"}})
	case "createPortalSession":
		return c.OpenPortal(ctx, "plk_…")
	case "mintGrant":
		return c.MintGrant(ctx, client.GrantSpec{
			Principal: "user:ada", Verbs: []sluice.Verb{sluice.VerbRead}, Object: sluice.Object{Namespace: "acme", Pattern: "/orders/**"},
			ExpiresAt: time.Now().AddDate(0, 0, 30),
		})
	case "listGrants":
		return c.Grants(ctx, client.GrantsQuery{Principal: "user:ada", Active: true})
	case "verifyToken":
		return c.VerifyToken(ctx, "cap_…", sluice.VerbRead, sluice.Object{Namespace: "acme", Pattern: "/orders/42"})
	case "getGrant":
		return c.Grant(ctx, "grant-1")
	case "renewGrant":
		return c.RenewGrant(ctx, "grant-1", time.Now().AddDate(0, 0, 30))
	case "revokeGrant":
		return c.RevokeGrant(ctx, "grant-1")
	case "listPrincipals":
		return c.Principals(ctx)
	case "getPrincipal":
		return c.Principal(ctx, "user:ada")
	case "putPrincipal":
		return c.PutPrincipal(ctx, sluice.Profile{Principal: "user:ada", Description: "support"})
	case "deletePrincipal":
		return nil, c.DeletePrincipal(ctx, "user:ada")
	case "listACL":
		return c.ACLs(ctx, "acme")
	case "getACL":
		return c.ACL(ctx, "acme", "user:ada")
	case "putACL":
		return c.PutACL(ctx, "acme", "user:ada", sluice.Access{Tier: sluice.TierExistence, Pattern: "/orders/**"})
	case "deleteACL":
		return nil, c.DeleteACL(ctx, "acme", "user:ada")
	case "entomb":
		return c.Erase(ctx, "acme", "/orders/42")
	case "listTombstones":
		return c.Tombstones(ctx, "acme")
	case "createSubscription":
		subscription, _, err := c.CreateSubscription(ctx, client.SubscriptionSpec{
			Namespace: "acme", Pattern: "/orders/**", Endpoint: sluice.Endpoint{URL: "https://example.com/hook"},
		})
		return subscription, err
	case "listSubscriptions":
		return c.Subscriptions(ctx, client.SubscriptionsQuery{Namespace: "acme"})
	case "createSubscriptions":
		return c.CreateSubscriptions(ctx, []client.SubscriptionSpec{
			{Namespace: "acme", Pattern: "/orders/**", Endpoint: sluice.Endpoint{URL: "https://example.com/hook"}},
		})
	case "putSubscription":
		subscription, _, err := c.PutSubscription(ctx, "orders", client.SubscriptionSpec{
			Namespace: "acme", Pattern: "/orders/**", Endpoint: sluice.Endpoint{URL: "https://example.com/hook"},
		})
		return subscription, err
	case "getSubscription":
		return c.Subscription(ctx, "orders")
	case "patchSubscription":
		return c.PatchSubscription(ctx, "orders", map[string]any{"description": "to the ERP"}, 0)
	case "deleteSubscription":
		return nil, c.DeleteSubscription(ctx, "orders")
	case "pauseSubscription":
		return c.PauseSubscription(ctx, "orders")
	case "resumeSubscription":
		return c.ResumeSubscription(ctx, "orders")
	case "syncMirror":
		status, _, err := c.SyncMirror(ctx, "partner", client.MaxSyncWait)
		return status, err
	case "suspendMirror":
		return c.SuspendMirror(ctx, "partner")
	case "putCredential":
		return c.PutMirrorCredential(ctx, "partner", "cap_…")
	case "rotateSecret":
		return c.RotateSecret(ctx, "orders", client.DefaultOverlap)
	case "testSubscription":
		return c.TestSubscription(ctx, "orders")
	case "matchSubscription":
		return c.MatchSubscription(ctx, "orders", client.MatchRequest{Event: json.RawMessage(`{"path":"/orders/42","type":"order.placed"}`)})
	case "seekSubscription":
		return c.SeekSubscription(ctx, "orders", "10m")
	case "startReplay":
		return c.Replay(ctx, "orders", client.ReplayRequest{From: "1h", Types: []string{"order.*"}})
	case "listReplays":
		return c.Replays(ctx, "orders")
	case "getReplay":
		return c.GetReplay(ctx, "orders", "replay-1")
	case "cancelReplay":
		return c.CancelReplay(ctx, "orders", "replay-1")
	case "listProblems":
		return c.Problems(ctx, client.ProblemsQuery{State: sluice.ProblemOpen})
	case "getProblem":
		return c.Problem(ctx, "orders.http_5xx")
	case "changeProblem":
		return c.ChangeProblem(ctx, "orders.http_5xx", sluice.ProblemChange{State: sluice.ProblemAcknowledged})
	case "getOverview":
		return c.Overview(ctx, "acme")
	case "getStatistics":
		return c.Statistics(ctx, "orders-to-erp", client.StatisticsQuery{Step: "1h"})
	case "listHealth":
		return c.Health(ctx, client.HealthQuery{Namespace: "acme"})
	case "probeSubscription":
		return c.ProbeSubscription(ctx, "orders")
	case "retryLanes":
		return c.RetryLanes(ctx, "orders")
	case "getStatus":
		return c.Status(ctx, "orders")
	case "listConsumers":
		return c.Consumers(ctx, "agents", client.ConsumersQuery{})
	case "getConsumer":
		return c.Consumer(ctx, "agents", "/tasks/1")
	case "listDeliveries":
		return c.Deliveries(ctx, "orders", client.DeliveriesQuery{State: "failed", Since: "1h"})
	case "getDelivery":
		return c.Delivery(ctx, "orders", "o-42")
	case "retryDelivery":
		return c.RetryDelivery(ctx, "orders", "o-42")
	case "discardDelivery":
		return c.DiscardDelivery(ctx, "orders", "o-42")
	case "listSubscriptionEvents":
		return c.SubscriptionEvents(ctx, "orders", client.WindowQuery{Types: []string{"order.*"}})
	case "listDeadLetters":
		return c.DeadLetters(ctx, "orders", client.DeadLettersQuery{})
	case "discardDeadLetters":
		return nil, c.DiscardDeadLetters(ctx, "orders")
	case "redriveDeadLetters":
		return c.Redrive(ctx, "orders", client.RedriveSpec{All: true})
	case "getDeadLetter":
		return c.DeadLetter(ctx, "orders", "o-42")
	case "discardDeadLetter":
		return nil, c.DiscardDeadLetter(ctx, "orders", "o-42")
	}
	return nil, errNoCall
}
