package problem

import (
	"fmt"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// sentence describes a problem and its remedy.
func sentence(class sluice.FailureClass, status int) string {
	switch class {
	case sluice.FailTimeout:
		return "The endpoint does not answer within the time of an attempt. Check its load, or raise policy.timeout."
	case sluice.FailConnection:
		return "The connection to the endpoint breaks before its response is complete. Check the endpoint, its proxy and the network."
	case sluice.FailRefused:
		return "Nothing listens at the endpoint's address. Start the receiver, or correct endpoint.url."
	case sluice.FailDNS:
		return "The endpoint's host has no address. Check its DNS records, or correct endpoint.url."
	case sluice.FailTLS:
		return "The TLS handshake with the endpoint fails. Check its certificate, the chain and the names in it, and the client certificate if it asks for one."
	case sluice.FailRedirect:
		return fmt.Sprintf("The endpoint redirects with status %d, which is not followed. Set endpoint.url to the address to which it leads.", status)
	case sluice.FailStatus:
		return fmt.Sprintf("The endpoint rejects the requests with status %d. Compare a request with what the receiver expects, then redrive what failed for good.", status)
	case sluice.FailAuth:
		return fmt.Sprintf("The endpoint refuses the signature or the credentials with status %d. Compare the secret at both ends, and rotate it if they differ.", status)
	case sluice.FailThrottled:
		return "The endpoint limits the rate with status 429. Lower policy.rate to what it accepts."
	case sluice.FailServer:
		return fmt.Sprintf("The endpoint fails with status %d. Once it is repaired, probe it: waiting events then follow by themselves.", status)
	case sluice.FailCredential:
		return "No access token for the endpoint is obtained. Check the token URL, the client and the scopes in endpoint.auth."
	case sluice.FailUnsent:
		return "Requests are not sent: the address is blocked, or the request cannot be created. Correct the subscription, or have the operator allow the address in webhooks.allow_cidrs."
	case sluice.FailProgram:
		return "The program of the module fails. Read the output of its last attempt, and correct the program."
	case sluice.FailOther:
	}
	return "Attempts fail for a reason without a class. Read the error of the last attempt."
}

// acts returns the operations that may help.
func acts(r *Record, s *Situation) (all []sluice.ProblemAct) {
	if r.State == sluice.ProblemResolved && s.DeadLetters == 0 {
		return nil
	}
	add := func(is bool, act sluice.ProblemAct) {
		if is {
			all = append(all, act)
		}
	}
	active := s.Sub.State == sluice.Active
	push := s.Sub.Mode == sluice.Push
	add(active && push && s.Breaker == sluice.BreakerOpen, sluice.ActProbe)
	add(active && push && s.Parked > 0, sluice.ActRetry)
	add(push && s.DeadLetters > 0 && s.Sub.State != sluice.Cancelled, sluice.ActRedrive)
	add(s.Sub.State == sluice.Disabled || s.Sub.State == sluice.Suspended, sluice.ActResume)
	add(active, sluice.ActPause)
	add(r.Class == sluice.FailAuth, sluice.ActRotate)
	add(push && s.Sub.State != sluice.Cancelled, sluice.ActSeek)
	return all
}
