package cloudevent

import "github.com/sluice-io/sluice/internal/strictjson"

// JSONHints returns hints for fields that users of other services may write by mistake.
func (*shortForm) JSONHints() strictjson.Hints {
	all := strictjson.Hints{"": {Example: `{"path":"/orders/42","type":"order.created","data":{"total":99}}`}}
	for _, same := range []struct {
		hint  strictjson.Hint
		names []string
	}{
		{strictjson.Hint{Use: "type", Example: `{"type":"order.created"}`}, []string{"eventtype", "event", "eventname", "name", "kind", "topic", "action"}},
		{strictjson.Hint{Use: "data", Example: `{"data":{"total":99}}`}, []string{"payload", "body", "message", "content", "object", "properties", "value"}},
		{strictjson.Hint{Use: "path", Example: `{"path":"/orders/42"}`}, []string{"stream", "channel", "channels", "key", "partitionkey", "route", "url"}},
		{strictjson.Hint{Use: "id", Example: `{"id":"order-42-created"}`}, []string{"eventid", "uid", "messageid", "msgid", "idempotencykey", "dedupid", "deduplicationid"}},
		{strictjson.Hint{Use: "time", Example: `{"time":"2026-01-02T15:04:05Z"}`}, []string{"timestamp", "created", "createdat", "occurredat", "date", "eventtime"}},
		{strictjson.Hint{Use: "deliver_at", Example: `{"deliver_at":"2026-01-02T15:04:05Z"}`}, []string{"sendat", "scheduledat", "scheduledfor", "delay", "notbefore", "eta"}},
		{strictjson.Hint{Use: "source", Example: `{"source":"/shop"}`}, []string{"producer", "origin", "sender"}},
		{strictjson.Hint{Use: "the namespace in the URL: POST /v1/namespaces/{ns}/events"}, []string{"namespace", "ns", "tenant", "tenantid", "appid", "projectid"}},
		{strictjson.Hint{Use: "a CloudEvent", Example: `{"specversion":"1.0","id":"1","source":"/shop","type":"order.created","path":"/orders/42","dataschema":"https://example.com/order.json","datacontenttype":"application/json","data":{}}`}, []string{"dataschema", "schema", "schemaurl", "datacontenttype", "contenttype", "database64", "subjecttype"}},
		{strictjson.Hint{Use: "extension attributes of a CloudEvent", Example: `{"specversion":"1.0","id":"1","source":"/shop","type":"order.created","path":"/orders/42","region":"eu","data":{}}`}, []string{"metadata", "headers", "attributes", "extensions", "labels", "tags"}},
	} {
		for _, name := range same.names {
			all[name] = same.hint
		}
	}
	return all
}
