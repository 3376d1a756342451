package streams

// Headers of an event's message. All are optional; a message without headers is an event too.
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

	// HeaderPrefix is the prefix of every CloudEvents attribute, including extensions.
	HeaderPrefix = "ce-"

	// HeaderOwn is the prefix of headers written by the server; HeaderStamp proves that the auth
	// attributes are genuine.
	HeaderOwn   = "Sluice-"
	HeaderStamp = HeaderOwn + "Stamp"

	// HeaderNote holds the change that an append makes to a Durable Stream, with the server's
	// proof; or it holds the proof of the record of an erased event.
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
		{HeaderType, "the event's type; default: `message`"},
		{HeaderSource, "the event's source, a URI reference"},
		{HeaderTime, "time of occurrence, RFC 3339; default: the time of storing"},
		{HeaderSubject, "the CloudEvents subject"},
		{HeaderDataSchema, "the schema of the data, a URI"},
		{HeaderSpecVersion, "`1.0`"},
		{HeaderContentType, "the data's media type; `application/cloudevents+json` says that the body is the whole event"},
		{HeaderPrefix + "<name>", "an extension attribute; those that begin with `auth` are read only with a stamp"},
		{HeaderStamp, "set by the server: proof that the `auth` attributes are genuine (decision 0011)"},
		{HeaderNote, "set by the server: the change that an append made to its Durable Stream (decision 0016), or the proof of the record of an erased event"},
	}
}
