package httpapi

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/sluice-io/sluice/internal/httpapi/access"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/httpapi/reference"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func document(t *testing.T) map[string]any {
	t.Helper()
	var doc map[string]any
	require.NoError(t, yaml.UnmarshalStrict(openapiDocument, &doc))
	return doc
}

func dig(t *testing.T, v any, keys ...string) any {
	t.Helper()
	for _, key := range keys {
		object, ok := v.(map[string]any)
		require.True(t, ok, "%s is not in an object", key)
		v, ok = object[key]
		require.True(t, ok, "there is no %s", key)
	}
	return v
}

func TestOpenAPI_ListsExactlyTheRoutes(t *testing.T) {
	t.Parallel()
	segment := regexp.MustCompile(`:(\w+)`)
	var routes, documented []string
	for _, route := range New(Options{Metrics: http.NotFoundHandler()}).echo.Routes() {
		if route.Method == echo.RouteNotFound || strings.HasPrefix(route.Path, "/openapi.") || strings.HasPrefix(route.Path, "/docs") || strings.HasPrefix(route.Path, "/console") || strings.HasPrefix(route.Path, access.PortalPath) || route.Path == "/metrics" {
			continue
		}
		path := strings.Replace(segment.ReplaceAllString(route.Path, "{$1}"), "/*", "/{path}", 1)
		routes = append(routes, route.Method+" "+path)
	}
	paths, ok := dig(t, document(t), "paths").(map[string]any)
	require.True(t, ok)
	ids := map[any]bool{}
	for path, item := range paths {
		operations, ok := item.(map[string]any)
		require.True(t, ok)
		for method, operation := range operations {
			if method == "parameters" {
				continue
			}
			documented = append(documented, strings.ToUpper(method)+" "+path)
			id := dig(t, operation, "operationId")
			require.False(t, ids[id], "operationId %s is there twice", id)
			ids[id] = true
		}
	}
	slices.Sort(routes)
	slices.Sort(documented)
	require.Equal(t, routes, documented)
}

func TestOpenAPI_ReferencesResolve(t *testing.T) {
	t.Parallel()
	doc := document(t)
	refs := regexp.MustCompile(`\$ref: '#/([^']+)'`).FindAllSubmatch(openapiDocument, -1)
	require.NotEmpty(t, refs)
	used := map[string]bool{}
	for _, ref := range refs {
		used[string(ref[1])] = true
		dig(t, doc, strings.Split(string(ref[1]), "/")...)
	}
	kinds, ok := dig(t, doc, "components").(map[string]any)
	require.True(t, ok)
	delete(kinds, "securitySchemes") // security names them without a reference
	for kind, all := range kinds {
		components, ok := all.(map[string]any)
		require.True(t, ok)
		for name := range components {
			require.True(t, used["components/"+kind+"/"+name], "nothing refers to %s of %s", name, kind)
		}
	}
	require.NotContains(t, string(openapiDocument), "nullable:", "OpenAPI 3.1 has the type 'null'")
}

// Requests for mirrors, and answers with one, are those of the operations that also serve other subscriptions.
func TestOpenAPI_MirrorsAreSubscriptions(t *testing.T) {
	t.Parallel()
	text, err := reference.JSON(openapiDocument)
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("mem:///openapi.json", document))
	m := sluice.Mirror{ID: "m", Namespace: "acme", Source: "default", State: sluice.Active}
	m.SetDefaults()
	status := sluice.MirrorStatus{State: sluice.SyncIdle, Gaps: []sluice.MirrorGap{}}
	const content = "/content/application~1json/schema"
	for at, value := range map[string]any{
		"components/requestBodies/Subscription": map[string]string{"id": "m1", "mode": "mirror", "namespace": "acme", "source": "default"},
		"components/responses/NewSubscription":  m, "components/responses/AnySubscription": m,
		"paths/~1v1~1subscriptions~1{id}~1status/get/responses/200": status,
		"paths/~1v1~1subscriptions/get/responses/200": map[string]any{
			"subscriptions": []any{struct {
				sluice.Mirror

				Status sluice.MirrorStatus `json:"status"`
			}{m, status}}, "next_cursor": "",
		},
		"paths/~1v1~1subscriptions~1{id}/patch/requestBody": sluice.MirrorEdit{},
	} {
		s, err := compiler.Compile("mem:///openapi.json#/" + at + content)
		require.NoError(t, err, at)
		body, err := json.Marshal(value)
		require.NoError(t, err)
		parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, s.Validate(parsed), "%s: %s", at, body)
	}
}

// A comma in an unquoted description of a flow mapping cuts it and leaves an empty key behind.
func TestDocument_HasNoEmptyValues(t *testing.T) {
	t.Parallel()
	var walk func(at string, v any)
	walk = func(at string, v any) {
		require.NotNil(t, v, at)
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				walk(at+"/"+key, value)
			}
		case []any:
			for i, value := range v {
				walk(at+"/"+strconv.Itoa(i), value)
			}
		}
	}
	walk("", document(t))
}

// The path parameters of a path are declared, by reference or in place.
func TestOpenAPI_DeclaresPathParameters(t *testing.T) {
	t.Parallel()
	doc := document(t)
	paths, ok := dig(t, doc, "paths").(map[string]any)
	require.True(t, ok)
	for path, item := range paths {
		var declared []any
		if strings.Contains(path, "{") {
			declared, ok = dig(t, item, "parameters").([]any)
			require.True(t, ok)
		}
		require.Len(t, declared, strings.Count(path, "{"), path)
		for _, parameter := range declared {
			if ref, isRef := parameter.(map[string]any)["$ref"].(string); isRef {
				parameter = dig(t, doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			}
			name, _ := dig(t, parameter, "name").(string)
			require.Contains(t, path, "{"+name+"}")
		}
	}
}

// codes returns the error codes that package sluice declares, and the one that only HTTP knows.
func codes(t *testing.T) []sluice.Code {
	t.Helper()
	all := append(constants[sluice.Code](t, "../../pkg/sluice/error.go", "Code"), httpkit.MethodNotAllowed, httpkit.UnsupportedMedia)
	slices.Sort(all)
	return all
}

// constants returns the texts that a file declares of a type, in their order.
func constants[T ~string](t *testing.T, name, kind string) (all []T) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == kind {
			literal, ok := spec.Values[0].(*ast.BasicLit)
			require.True(t, ok)
			text, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			all = append(all, T(text))
		}
		return true
	})
	require.NotEmpty(t, all)
	return all
}

func TestOpenAPI_AgreesWithTheStatusTable(t *testing.T) {
	t.Parallel()
	schema := dig(t, document(t), "components", "schemas", "ErrorCode")
	listed, ok := dig(t, schema, "enum").([]any)
	require.True(t, ok)
	table, ok := dig(t, schema, "x-status").(map[string]any)
	require.True(t, ok)
	var enum []sluice.Code
	for _, code := range listed {
		text, _ := code.(string)
		enum = append(enum, sluice.Code(text))
	}
	slices.Sort(enum)
	require.Equal(t, codes(t), enum)
	require.Len(t, table, len(enum))
	for _, code := range enum {
		require.InDelta(t, httpkit.Status(code), table[string(code)], 0, code)
	}
}

func requireEnum[T ~string](t *testing.T, schema string, values []T) {
	t.Helper()
	want := make([]any, len(values))
	for i, value := range values {
		want[i] = string(value)
	}
	require.Equal(t, want, dig(t, document(t), "components", "schemas", schema, "enum"))
}

func TestOpenAPI_NamesEveryReason(t *testing.T) {
	t.Parallel()
	requireEnum(t, "Reason", sluice.Reasons())
}

func TestOpenAPI_NamesEveryFailureClass(t *testing.T) {
	t.Parallel()
	requireEnum(t, "FailureClass", sluice.FailureClasses())
	requireEnum(t, "ProblemState", sluice.ProblemStates())
	require.ElementsMatch(t, sluice.FailureClasses(), constants[sluice.FailureClass](t, "../../pkg/sluice/failure.go", "FailureClass"))
}

// S0-55.
func TestOpenAPI_NamesEveryTokenReason(t *testing.T) {
	t.Parallel()
	requireEnum(t, "TokenReason", constants[string](t, "../authz/token.go", "Reason"))
}

func TestOpenAPI_NamesTheVerbs(t *testing.T) {
	t.Parallel()
	requireEnum(t, "Verb", sluice.Verbs())
}

// The document says which operations need a token.
func TestOpenAPI_MarksOperationsThatNeedAToken(t *testing.T) {
	t.Parallel()
	paths, ok := dig(t, document(t), "paths").(map[string]any)
	require.True(t, ok)
	for path, item := range paths {
		operations, ok := item.(map[string]any)
		require.True(t, ok)
		for method, operation := range operations {
			if method == "parameters" {
				continue
			}
			operation, ok := operation.(map[string]any)
			require.True(t, ok)
			_, declared := operation["security"]
			declared = declared && operation["operationId"] != "feed" // which takes a ticket, too
			wanted := isAPI(path) && method != "options" && path != "/streams/{ns}/__ds/jwks.json" && path != access.SessionsRoute
			require.Equal(t, !wanted, declared, "%s %s", method, path)
			responses, ok := operation["responses"].(map[string]any)
			require.True(t, ok)
			ofItsOwn := path == "/callback/{ns}/{consumer}" || path == access.SessionsRoute // with the token of a notice, and the code of a link
			require.Equal(t, wanted || ofItsOwn, responses["401"] != nil, "%s %s", method, path)
		}
	}
}

// S1-85…91.
func TestCallback_StatusesAreThoseOfS1(t *testing.T) {
	t.Parallel()
	contract := map[sluice.Code]int{
		"INVALID_REQUEST": 400, "TOKEN_EXPIRED": 401, "TOKEN_INVALID": 401, "ALREADY_CLAIMED": 409, "INVALID_OFFSET": 409, "STALE_EPOCH": 409, "CONSUMER_GONE": 410,
	}
	all := constants[sluice.Code](t, "../../pkg/sluice/wake.go", "Code")
	require.Len(t, all, len(contract))
	for _, code := range all {
		require.Equal(t, contract[code], httpkit.Status(code), code)
	}
}

func TestStatus_IsThatOfTheContract(t *testing.T) {
	t.Parallel()
	contract := map[int][]sluice.Code{
		400: {sluice.InvalidRequest},
		401: {sluice.Unauthenticated, sluice.TokenInvalid, sluice.TokenExpired},
		403: {sluice.Forbidden, sluice.CapabilityRequired, sluice.UnknownKey},
		404: {sluice.NotFound, sluice.SubscriptionMissing},
		405: {httpkit.MethodNotAllowed},
		409: {
			sluice.Conflict, sluice.SubscriptionDiffers, sluice.EventLoopDetected,
			sluice.BundleImported, sluice.BundleGap, sluice.BundleFork, sluice.OriginReplaced,
			sluice.SubscriptionExists, sluice.MirrorCycle, sluice.MirrorSuspended, sluice.Fenced,
		},
		410: {sluice.WindowExceeded, sluice.StreamGone},
		412: {sluice.RevisionMismatch},
		413: {sluice.TooLarge},
		422: {
			sluice.InsecureURL, sluice.BlockedAddress, sluice.UnknownFilter, sluice.Ambiguous, sluice.SecretTooShort,
			sluice.WakeNotSupported, sluice.UnknownEventType, sluice.InvalidEventData, sluice.Unprocessable,
			sluice.NoMatchingSubscription, sluice.BundleSignatureInvalid,
		},
		415: {httpkit.UnsupportedMedia},
		429: {sluice.QuotaExceeded},
		500: {sluice.Internal},
		503: {sluice.Unavailable},
	}
	var all []sluice.Code
	for want, list := range contract {
		for _, code := range list {
			require.Equal(t, want, httpkit.Status(code), code)
			all = append(all, code)
		}
	}
	slices.Sort(all)
	require.Equal(t, codes(t), all)
}

// The page lists every code beside its status, and no other.
func TestErrorsPage_ListsEveryCode(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/errors.md")
	require.NoError(t, err)
	var listed []sluice.Code
	for _, row := range regexp.MustCompile(`(?m)^\| (\d{3}) \| (.*) \|$`).FindAllStringSubmatch(string(text), -1) {
		for _, code := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			listed = append(listed, sluice.Code(code[1]))
			require.Equal(t, row[1], strconv.Itoa(httpkit.Status(sluice.Code(code[1]))), code[1])
		}
	}
	slices.Sort(listed)
	require.Equal(t, codes(t), listed)
	require.Contains(t, string(openapiDocument), "400 `invalid_request` says that the server cannot read the request")
}
