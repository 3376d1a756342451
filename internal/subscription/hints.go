package subscription

import "github.com/sluice-io/sluice/internal/strictjson"

const anExample = `{"pattern":"/orders/**","endpoint":{"url":"https://example.com/hook"}}`

// JSONHints returns hints for fields that users of other webhook services write: the field of
// Sluice to use instead.
func (*Request) JSONHints() strictjson.Hints { return hints() }

// JSONHints returns the hints of Request.
func (*patched) JSONHints() strictjson.Hints { return hints() }

// hints returns the fields of Sluice by the field names of Svix, Stripe, Outpost, Convoy, Hookdeck
// and NATS.
func hints() strictjson.Hints {
	all := strictjson.Hints{
		"":               {Example: anExample},
		"endpoint":       {Use: "endpoint", Example: `{"url":"https://example.com/hook"}`},
		"policy":         {Use: "policy", Example: `{"retry":{"preset":"standard"},"timeout":"15s"}`},
		"policy.retry":   {Use: "policy.retry", Example: `{"preset":"standard"}`},
		"policy.rate":    {Use: "policy.rate", Example: `{"per_second":10}`},
		"policy.timeout": {Use: "policy.timeout", Example: `"15s"`},
		"metadata":       {Use: "metadata", Example: `{"team":"billing"}`},
	}
	for _, same := range []struct {
		hint  strictjson.Hint
		names []string
	}{
		{strictjson.Hint{Use: "endpoint.url", Example: `{"endpoint":{"url":"https://example.com/hook"}}`}, []string{"url", "webhookurl", "endpointurl", "callbackurl", "callback", "targeturl", "uri", "destination", "webhook", "sink"}},
		{strictjson.Hint{Use: "endpoint.secret", Example: `{"endpoint":{"secret":"whsec_…"}}`}, []string{"secret", "signingsecret", "signingkey", "secretkey", "webhooksecret"}},
		{strictjson.Hint{Use: "endpoint.headers", Example: `{"endpoint":{"headers":{"x-env":"prod"}}}`}, []string{"headers", "customheaders", "httpheaders"}},
		{strictjson.Hint{Use: "filter.types", Example: `{"filter":{"types":["order.created","invoice.*"]}}`}, []string{"eventtypes", "eventtype", "enabledevents", "filtertypes", "events", "event", "types", "topics", "triggers"}},
		{strictjson.Hint{Use: "filter.cel", Example: `{"filter":{"cel":"event.data.total > 100"}}`}, []string{"cel", "expression", "condition", "conditions", "filterconfig", "filters", "rules"}},
		{strictjson.Hint{Use: "pattern", Example: `{"pattern":"/orders/**"}`}, []string{"path", "paths", "prefix", "channel", "channels", "topic", "subject", "subjects", "filtersubject", "filtersubjects", "stream", "streams"}},
		{strictjson.Hint{Use: "policy.retry", Example: `{"policy":{"retry":{"preset":"standard"}}}`}, []string{"retry", "retries", "retrypolicy", "retryconfig", "retryschedule", "retrystrategy", "backoff"}},
		{strictjson.Hint{Use: "policy.retry", Example: `{"policy":{"retry":{"preset":"custom","steps":["5s","1m"],"max_attempts":5}}}`}, []string{"maxretries", "maxattempts", "retrylimit", "retrycount", "attempts"}},
		{strictjson.Hint{Use: "policy.signature", Example: `{"policy":{"signature":{"scheme":"standard"}}}`}, []string{"signing", "signature", "signatures", "signaturescheme", "scheme", "verification"}},
		{strictjson.Hint{Use: "policy.rate", Example: `{"policy":{"rate":{"per_second":10}}}`}, []string{"ratelimit", "throttle", "throttlerate", "throttling", "rate"}},
		{strictjson.Hint{Use: "policy.timeout", Example: `{"policy":{"timeout":"15s"}}`}, []string{"timeout", "httptimeout", "timeoutms", "timeoutseconds", "requesttimeout"}},
		{strictjson.Hint{Use: "policy.envelope", Example: `{"policy":{"envelope":"cloudevents"}}`}, []string{"payload", "payloadformat", "format", "envelope", "bodyformat"}},
		{strictjson.Hint{Use: "policy.ordering", Example: `{"policy":{"ordering":"path"}}`}, []string{"ordering", "ordered", "fifo"}},
		{strictjson.Hint{Use: "namespace", Example: `{"namespace":"default"}`}, []string{"tenant", "tenantid", "appid", "application", "project", "projectid", "account", "ns"}},
		{strictjson.Hint{Use: "start", Example: `{"start":"new"}`}, []string{"from", "since", "startat", "startfrom", "deliverpolicy", "replayfrom"}},
		{strictjson.Hint{Use: "mode", Example: `{"mode":"push"}`}, []string{"type", "kind"}},
		{strictjson.Hint{Use: "enabled", Example: `{"enabled":true}`}, []string{"active", "disabled", "isdisabled", "isactive", "paused"}},
		{strictjson.Hint{Use: "description", Example: `{"description":"orders to the ERP"}`}, []string{"name", "title", "label", "displayname"}},
		{strictjson.Hint{Use: "id", Example: `{"id":"orders-to-erp"}`}, []string{"uid", "subscriptionid", "endpointid", "slug"}},
		{strictjson.Hint{Use: "metadata", Example: `{"metadata":{"team":"billing"}}`}, []string{"tags", "labels", "annotations", "attributes"}},
	} {
		for _, name := range same.names {
			all[name] = same.hint
		}
	}
	return all
}
