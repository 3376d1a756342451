package clientgen_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/clientgen"
)

const document = `
paths:
  /v1/things/{id}:
    parameters: [{$ref: '#/components/parameters/id'}]
    get:
      operationId: getThing
      summary: Get a thing
      parameters: [{name: from, in: query, schema: {type: array, items: {type: string}}}, {name: If-Match, in: header, schema: {type: string}}]
      responses:
        '200': {content: {application/json: {schema: {$ref: '#/components/schemas/Thing'}}}}
        '404': {content: {application/json: {schema: {$ref: '#/components/schemas/Unused'}}}}
    post:
      operationId: changeThing
      summary: Change a thing
      requestBody:
        required: true
        content:
          application/json: {schema: {type: object, required: [size], properties: {size: {type: integer}}}}
          '*/*': {schema: {}}
      responses: {'204': {description: Changed.}}
  /v1/live:
    get:
      operationId: live
      summary: Follow things
      responses: {'200': {content: {text/event-stream: {schema: {$ref: '#/components/schemas/Thing'}}}}}
components:
  parameters:
    id: {name: id, in: path, required: true, schema: {type: string}}
  schemas:
    ErrorCode: {type: string, enum: [gone]}
    Unused: {type: object, properties: {a: {type: string}}}
    Base: {type: object, required: [id], properties: {id: {type: string, description: 'Its ID. Unique.'}}}
    Thing:
      description: A thing.
      allOf:
        - {$ref: '#/components/schemas/Base'}
        - type: object
          properties:
            state: {type: string, enum: ["on", "off"]}
            labels: {type: object, additionalProperties: {type: [string, 'null']}}
            parts: {type: array, items: {oneOf: [{const: true}, {type: number}]}}
            range: {type: object, required: [from], properties: {from: {type: integer}}}
            parent: {$ref: '#/components/schemas/Thing'}
`

func TestFiles_HaveTypesAndOperations(t *testing.T) {
	t.Parallel()
	files, err := clientgen.Files([]byte(document))
	require.NoError(t, err)
	for name, parts := range map[string][]string{
		"pkg/typescript/src/types.ts": {
			"/** A thing. */\nexport interface Thing {\n  /** Its ID. */ id: string\n",
			"  labels?: Record<string, string | null> | undefined\n",
			"  parent?: Thing | undefined\n",
			"  parts?: (true | number)[] | undefined\n",
			"  range?: ThingRange | undefined\n",
			"  state?: \"on\" | \"off\" | undefined\n",
			"export interface ThingRange {\n  from: number\n}\n",
			"export type ErrorCode = \"gone\"\n",
		},
		"pkg/typescript/src/operations.ts": {
			"getThing(args: { id: string; from?: string[] | undefined; if_match?: string | undefined }, options: Options = {}): Promise<T.Thing> {\n" +
				"    return this.call('GET', '/v1/things/{id}', args, ['If-Match'], options)\n",
			"changeThing(args: { id: string; body: T.ChangeThingBody | T.Bytes; content_type?: string | undefined; idempotency_key?: string | undefined }, options: Options = {}): Promise<void> {",
			"live(options: Options = {}): AsyncGenerator<Frame<T.Thing>, void, undefined> {\n    return this.frames('/v1/live', {}, options)\n",
		},
		"pkg/python/src/sluice/types.py": {
			"class Thing(TypedDict):\n    \"\"\"A thing.\"\"\"\n\n    id: str\n    labels: NotRequired[dict[str, str | None]]\n    parent: NotRequired[Thing]\n" +
				"    parts: NotRequired[list[Literal[True] | float]]\n    range: NotRequired[ThingRange]\n    state: NotRequired[Literal[\"on\", \"off\"]]\n",
			"ThingRange = TypedDict(\n    \"ThingRange\",\n    {\n        \"from\": \"int\",\n    },\n)\n",
		},
		"pkg/python/src/sluice/operations.py": {
			"def get_thing(self, id: str, *, from_: list[str] | None = None, if_match: str | None = None) -> t.Thing:\n",
			"return self._call(\"GET\", \"/v1/things/{id}\", {\"id\": id}, {\"from\": from_}, {\"If-Match\": if_match})\n",
			"def live(self) -> Iterator[Frame[t.Thing]]:\n",
		},
	} {
		for _, part := range parts {
			require.Contains(t, string(files[name]), part, name)
		}
		require.NotContains(t, string(files[name]), "Unused", name)
	}
}

func TestFiles_UnknownFormsAreErrors(t *testing.T) {
	t.Parallel()
	for old, changed := range map[string]string{
		"{type: integer}":             "{type: decimal}",
		"schemas/Base":                "schemas/Missing",
		"ErrorCode: {type: string":    "GetThing: {type: string",
		"additionalProperties: {type": "additionalProperties: [1], x-was: {type",
		"items: {oneOf: [":            "items: {oneOf: [{type: 7}, ",
	} {
		text := strings.Replace(document, old, changed, 1)
		require.NotEqual(t, document, text, old)
		_, err := clientgen.Files([]byte(text))
		require.Error(t, err, changed)
	}
}
