package streams

// Headers of an event's message. All are optional; a message without any is an event too.
const (
	HeaderMsgID       = "Nats-Msg-Id"
	HeaderID          = "ce-id"
	HeaderType        = "ce-type"
	HeaderSource      = "ce-source"
	HeaderTime        = "ce-time"
	HeaderSubject     = "ce-subject"
	HeaderDataSchema  = "ce-dataschema"
	HeaderSpecVersion = "ce-specversion"
	HeaderContentType = "content-type"

	// HeaderPrefix starts the name of every CloudEvents attribute, extensions included.
	HeaderPrefix = "ce-"

	// HeaderOwn starts the names of headers that the server writes; HeaderStamp is its proof that
	// the auth attributes are true.
	HeaderOwn   = "Sluice-"
	HeaderStamp = HeaderOwn + "Stamp"

	// HeaderNote is what an append to a Durable Stream changed of the stream, with the server's proof.
	HeaderNote = HeaderOwn + "Note"
)

// Header describes a header of an event's message.
type Header struct {
	Name        string
	Description string
}

// Headers describes the headers of an event's message.
func Headers() []Header {
	return []Header{
		{HeaderMsgID, "the event's id: a second message with it, inside the dedup window, is not stored"},
		{HeaderID, "the event's id, if different; without either the server derives one from the message's place"},
		{HeaderType, "the event's type; `message` without it"},
		{HeaderSource, "the event's source, a URI reference"},
		{HeaderTime, "when it happened, RFC 3339; the time of storing without it"},
		{HeaderSubject, "the CloudEvents subject"},
		{HeaderDataSchema, "the schema of the data, a URI"},
		{HeaderSpecVersion, "`1.0`"},
		{HeaderContentType, "the data's media type; `application/cloudevents+json` says that the body is the whole event"},
		{HeaderPrefix + "<name>", "an extension attribute; those that begin with `auth` are read only with a stamp"},
		{HeaderStamp, "the server's own: a proof of who may have set the `auth` attributes (decision 0011)"},
		{HeaderNote, "the server's own: what an append changed of its Durable Stream (decision 0016)"},
	}
}
