// Package webhook knows what a receiver of Sluice's requests needs: whether a request is
// genuine (every signature scheme, both ways) and what it says (every envelope). A handler
// makes one Receiver, gives it each request and gets a Delivery or an error:
//
//	hook := webhook.Receiver{Secrets: []string{secret}}
//	…
//	d, err := hook.Receive(r)
//	if err != nil {
//		http.Error(w, err.Error(), webhook.Status(err))
//		return
//	}
//
// A worker that a subscription of mode wake wakes gets a Notice instead, with ReceiveNotice, and calls back.
//
// Answer 2xx within the subscription's timeout once the event is safe; anything else is tried
// again. The same event may come twice: keep the ids that were handled (Delivery.ID never
// changes over attempts). It imports nothing of Sluice, so that it can be copied.
package webhook
