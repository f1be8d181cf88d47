package edge

import (
	"net/http"

	"payledger/domain"
)

// ProblemRow is one kind of problem: what the answer says when nothing more
// precise is known, and what its page explains.
type ProblemRow struct {
	Code   domain.Code
	Status int
	Title  string
	detail string // default of the answer's detail
	Page   string // explanation: how it comes about and what to do
}

// ProblemRows lists every problem there is, in the order of their status.
func ProblemRows() []ProblemRow {
	return []ProblemRow{
		{
			domain.InvalidParameter, http.StatusBadRequest, "Invalid query parameter",
			"A query parameter is unknown, repeated or has a value that is not accepted. See the member parameter.",
			"Lists take only the query parameters their documentation names, each at most once. The member <code>parameter</code> names the one that was refused. If its name is unknown, <code>allowed</code> lists the known names and <code>nearest</code> is the one that was probably meant. A cursor carries the filters it was made with: repeat them unchanged or leave them out.",
		},
		{
			domain.InvalidCursor, http.StatusBadRequest, "Invalid cursor",
			"This list has not given this cursor to this project. Send next_cursor unchanged, or start without a cursor.",
			"Cursors are opaque. Take them unchanged from <code>next_cursor</code> or follow the <code>Link</code> header; one list's cursor does not fit another list, nor another project's.",
		},
		{
			domain.MalformedJSON, http.StatusBadRequest, "Malformed JSON",
			"The body is not valid JSON. Send exactly one JSON object as RFC 8259 defines it.",
			"The body could not be read as JSON; the detail says where: lines and columns are counted from 1, columns in characters, bytes from 0. Common causes: a trailing comma, single quotes, numbers with a leading zero, a body cut short, something after the object, or nesting beyond 128 levels.",
		},
		{
			domain.InvalidEncoding, http.StatusBadRequest, "Invalid encoding",
			"The body is not valid UTF-8 text. Send UTF-8 without a byte order mark and with surrogates in pairs.",
			"Bodies are UTF-8 without a byte order mark. An escape such as <code>\\ud83d</code> needs its second half, <code>\\ude00</code>; alone it is no character.",
		},
		{
			domain.DuplicateMember, http.StatusBadRequest, "Duplicate member",
			"An object in the body names the same member twice. Send each name once.",
			"An object, at any depth, has two members of one name. Programs disagree on which of them counts, so the body is refused. Names are compared after their escapes are resolved.",
		},
		{
			domain.BodyRequired, http.StatusBadRequest, "Body required",
			"The body is empty. Send a JSON object.",
			"This request needs a JSON object as its body. Some clients drop the body when they follow a redirect or when its length is not set.",
		},
		{
			domain.IdempotencyKeyInvalid, http.StatusBadRequest, "Invalid idempotency key",
			"Idempotency-Key must be one UUID, for instance 0190f5a1-7c1e-4b6e-9d3a-5f0c2b7e8a11, in one header line.",
			"The header <code>Idempotency-Key</code> takes one UUID in the form 8-4-4-4-12 of hexadecimal digits, bare or in double quotes. Make a new random one for every payment or refund you want, and send it again unchanged when you repeat the request.",
		},
		{
			domain.IdempotencyKeyRequired, http.StatusBadRequest, "Idempotency key required",
			"This project requires the header Idempotency-Key. Send a new UUID with every payment or refund you want to create.",
			"The project was set up to require an <code>Idempotency-Key</code> with every creation, so that a repeated request can never create a second object. Send a new random UUID for each, and the same one when you repeat.",
		},
		{
			domain.NotificationMalformed, http.StatusBadRequest, "Malformed notification",
			"The notification is not in the form that the route's connector reads.",
			"A provider's notification could not be read, or its body did not arrive as a whole. Check that the address set at the provider is that of a route of its type, and that no proxy changes bodies.",
		},
		{
			domain.Unauthorized, http.StatusUnauthorized, "Unauthorized",
			"Send the header Authorization: Bearer <project_id>:<api_key>, once, with a live key of the project.",
			"Every request carries the header <code>Authorization: Bearer &lt;project_id&gt;:&lt;api_key&gt;</code>. The answer is the same whether the header is missing or misspelt, the project is unknown or the key is wrong or revoked.",
		},
		{
			domain.NotificationForged, http.StatusUnauthorized, "Forged notification",
			"The notification is not the provider's: its signature is missing or wrong.",
			"A notification was sent to a route whose connector could not verify it. If it is the provider's, the secret in the routes file is not the one that the provider signs with.",
		},
		{
			domain.ProjectDisabledCode, http.StatusForbidden, "Project disabled",
			"The project is disabled. Its operator can say why.",
			"The credentials are right, but the project's API has been closed by the operator. Its existing payments continue.",
		},
		{
			domain.ScopeMissing, http.StatusForbidden, "Scope missing",
			"This key lacks the scope in required_scope. Use a key that has it.",
			"An API key carries scopes: <code>payments:write</code>, <code>refunds:write</code>, <code>webhooks:write</code>, <code>read</code>, <code>audit</code>. The member <code>required_scope</code> names the one this request needs.",
		},
		{
			domain.PaymentNotFound, http.StatusNotFound, "Payment not found",
			"The project has no payment with this id. Ids are 26 characters, upper case, and are compared exactly.",
			"No payment of this project has this id. Ids are compared exactly, as 26 characters in upper case. The answer is the same for a payment of another project.",
		},
		{
			domain.RefundNotFound, http.StatusNotFound, "Refund not found",
			"The project has no refund with this id. Ids are 26 characters, upper case, and are compared exactly.",
			"No refund of this project has this id. Ids are compared exactly, as 26 characters in upper case. The answer is the same for a refund of another project.",
		},
		{
			domain.ParkedSignalNotFound, http.StatusNotFound, "Parked signal not found",
			"There is no parked signal with this id. It was retried or discarded, or newer signals took its place.",
			"There is no parked signal with this id: it was retried or discarded before, or newer signals replaced it because the stream was full. <code>payledger signals parked</code> lists the parked signals.",
		},
		{
			domain.ProjectNotFound, http.StatusNotFound, "Project not found",
			"There is no project with this id. List them to find the right one.",
			"Administration only: no project has this id.",
		},
		{
			domain.KeyNotFound, http.StatusNotFound, "Key not found",
			"The project has no key with this id. List its keys to find the right one.",
			"Administration only: the project has no key with this id. Keys are named by their id, <code>key_…</code>, never by the secret.",
		},
		{
			domain.WebhookEndpointNotFound, http.StatusNotFound, "Webhook endpoint not found",
			"The project has no webhook endpoint with this id. Ids begin with we_ and are compared exactly; list the endpoints to find the right one.",
			"No webhook endpoint of this project has this id. Ids are compared exactly. The answer is the same for an endpoint that was deleted or belongs to another project.",
		},
		{
			domain.DeliveryNotFound, http.StatusNotFound, "Delivery not found",
			"There is no delivery of this event to this endpoint, or it is too old. List the endpoint's deliveries to find the right one.",
			"The endpoint has no delivery of this event: it had not subscribed to its kind, it was created later, or the delivery is older than the 30 days for which deliveries are kept. Deliveries are named by the event's id, the <code>webhook-id</code> of the request, compared exactly.",
		},
		{
			domain.NATSConsumerNotFound, http.StatusNotFound, "NATS consumer not found",
			"There is no consumer of this name. List them to find the right one: payledger nats consumer list.",
			"Administration only: no consumer of the embedded NATS server has this name. <code>payledger nats consumer list</code> lists all of them.",
		},
		{
			domain.RouteNotFound, http.StatusNotFound, "Route not found",
			"There is no route of this name with a connector that takes notifications.",
			"Providers send notifications to <code>/connectors/</code> and the name of a route in the routes file. There is no such route, or it has no connector.",
		},
		{
			domain.LateFundsNotFound, http.StatusNotFound, "Late funds not found",
			"The payment has no late funds of this reference. List them with payledger suspense list.",
			"Administration only: the payment has recorded no late funds under this reference of the provider. <code>payledger suspense list</code> lists those that can be returned. References are compared exactly.",
		},
		{
			domain.DisputeNotFound, http.StatusNotFound, "Dispute not found",
			"The payment has no dispute of this reference. Record it first with payledger dispute open.",
			"Administration only: no dispute of the payment is recorded under this reference of the provider. <code>payledger payments get</code> lists them. References are compared exactly.",
		},
		{
			domain.SettlementNotFound, http.StatusNotFound, "Settlement not found",
			"There is no settlement report with this id for this project. List them with GET /v1/settlements.",
			"The id of a settlement report is its route, a colon and the provider's id of the report, compared exactly. A report without a line of yours, like one that was never imported, is answered as not found.",
		},
		{
			domain.SettlementLineNotFound, http.StatusNotFound, "Line not in suspense",
			"No line of this number of the report is in settlement suspense: it was resolved before, it fitted, or the report has no such line. Look at payledger settlement show.",
			"Administration only: only a line that fits nothing, and that was not resolved yet, can be resolved. <code>payledger settlement show</code> lists the lines of a report with their results.",
		},
		{
			domain.PayoutNotFound, http.StatusNotFound, "Payout not found",
			"There is no payout with this id. payledger payout list shows the ids.",
			"Administration only: no payout has the id. <code>payledger payout list</code> shows payouts with their ids.",
		},
		{
			domain.PathNotFound, http.StatusNotFound, "Path not found",
			"Nothing is at this path. Paths match exactly: check the spelling and leave out trailing or doubled slashes. /docs lists all of them.",
			"Paths match exactly, byte for byte. <code>/v1/payments/</code>, <code>//v1/payments</code> and paths with dot segments or needlessly encoded letters are other paths, and no redirect leads away from them.",
		},
		{
			domain.VersionNotSupported, http.StatusNotFound, "Version not supported",
			"This version of the API does not exist. Use /v1.",
			"The version is the first part of the path. There is <code>/v1</code>; it only grows, and a breaking change would be a new version next to it.",
		},
		{
			domain.MethodNotAllowed, http.StatusMethodNotAllowed, "Method not allowed",
			"This path does not take this method. The member allowed lists the methods it takes.",
			"The path exists, but not for this method. The header <code>Allow</code> and the member <code>allowed</code> list the methods that it takes.",
		},
		{
			domain.PaymentNotPaid, http.StatusConflict, "Payment not paid",
			"Only a paid payment can be refunded.",
			"A refund needs a payment in status <code>paid</code>. The member <code>payment_status</code> is its present status. A payment that is <code>created</code> or <code>awaiting_payment</code> can still become <code>paid</code>; <code>expired</code> and <code>failed</code> are final.",
		},
		{
			domain.PaymentDisputedCode, http.StatusConflict, "Payment disputed",
			"The customer disputes the payment at the bank, and the provider holds its money or has returned it: it cannot be refunded.",
			"The customer has disputed the payment at the bank. While the dispute is open the provider holds the money, and once it is lost the customer has it, so a refund would pay twice. After a dispute is won the payment can be refunded. <code>GET /v1/payments/{id}/events</code> tells of its disputes.",
		},
		{
			domain.RefundExists, http.StatusConflict, "Refund exists",
			"The payment has a refund already. See refund_id.",
			"A payment is refunded at most once, in full. The members <code>refund_id</code> and <code>refund_status</code> describe the existing refund. After a refund has <code>failed</code>, or its money came back, a new one can be made.",
		},
		{
			domain.FinalStatus, http.StatusConflict, "Final status",
			"Nothing changed in the status: the object can no longer become this. The outcome is recorded all the same, money that comes too late or twice as late funds.",
			"Sandbox only: the outcome was recorded, but statuses only move forward and a final status is never left, so it stays. Money that comes too late or twice is booked as late funds. <code>payment_status</code> or <code>refund_status</code> is the present status.",
		},
		{
			domain.DetailsErased, http.StatusConflict, "Details erased",
			"The payment that this Idempotency-Key made has had its description and payload erased, so the answer cannot be given again. Use a new key for a new payment.",
			"A repeated request is answered as it was the first time. Once the payment's description and payload were erased, that answer cannot be given any more. The payment is there: find it by <code>GET /v1/payments</code>. Use a new key for a new payment.",
		},
		{
			domain.DetailsInLog, http.StatusConflict, "Details in the log",
			"The payment was recorded by an earlier version, which kept description and payload in the log itself: they cannot be erased.",
			"Description and payload are kept apart from the log, so that they can be erased while every proof holds. This payment was recorded before that was so: they are a part of its event, which cannot change.",
		},
		{
			domain.NotSimulated, http.StatusConflict, "Not simulated",
			"The payment's outcome comes from a real provider. The sandbox cannot decide it.",
			"Sandbox only: the payment's route has a connector to a real provider, so its outcome comes from there, and nothing changed. The sandbox decides about payments on the route <code>sandbox</code>, and on routes that payledger asks nothing about.",
		},
		{
			domain.DeliverySupersededCode, http.StatusConflict, "Delivery superseded",
			"A later event of this payment was already sent, and an earlier status is never sent after a later one. Resend the event in event_id instead.",
			"Statuses only move forward, for receivers too: once a later event of a payment was sent to an endpoint, earlier ones are not sent again. The member <code>event_id</code> names the newest event of the payment; resend that one.",
		},
		{
			domain.WebhookEndpointLimit, http.StatusConflict, "Too many webhook endpoints",
			"The project has as many webhook endpoints as it can have. Change or delete one of them.",
			"A project has at most as many webhook endpoints as the member <code>limit</code> says, disabled ones included. Change an existing endpoint, or delete one that is no longer needed.",
		},
		{
			domain.WebhookEndpointDisabledCode, http.StatusConflict, "Webhook endpoint disabled",
			"The endpoint is disabled, so nothing is sent to it. Enable it first.",
			"Nothing is sent to a disabled endpoint, also no test and no notification that is resent or recovered. Its <code>disabled_reason</code> is <code>requested</code>, <code>gone</code> (it answered 410) or <code>failing</code> (every delivery failed for days). Enable it, then repeat the request.",
		},
		{
			domain.NATSConsumerExists, http.StatusConflict, "NATS consumer exists",
			"The name is taken by another consumer or by payledger itself. Choose another one, or remove that consumer first.",
			"Administration only: the name is that of another consumer, or of a built-in user of the embedded NATS server. A consumer that is removed and created again has another password and begins with the first event.",
		},
		{
			domain.NATSConsumerLimit, http.StatusConflict, "Too many NATS consumers",
			"There are 32 consumers, and there cannot be more. Remove one that is not used.",
			"Administration only: each consumer costs the embedded NATS server connections and work, so there are at most 32. Programs that share their work can share a consumer.",
		},
		{
			domain.NATSExternal, http.StatusConflict, "No NATS consumers to manage here",
			"The server runs with --nats-url, so the users of NATS are managed there. Make a user there in a separate account, and a durable pull consumer of EVENTS with the filters payledger.v1.events.PROJECT.payment.>, ….refund.> and ….return.> (* in place of PROJECT for all) and explicit acknowledgement; export to that account only CONSUMER.INFO, CONSUMER.MSG.NEXT and ACK of that consumer by its full name.",
			"Administration only: the server runs with <code>--nats-url</code>, on a NATS server whose users and consumers its own operator manages. The detail says what to do instead.",
		},
		{
			domain.RefundedAtProvider, http.StatusConflict, "Refunded at the provider",
			"The provider has already refunded this money outside payledger, so it is not returned a second time. Compare the amounts in the provider's own account.",
			"Administration only: this money was returned in the provider's own account, wholly or in part. A return would pay it out twice, so it is refused. Compare the amounts there, and return the rest there too.",
		},
		{
			domain.SettlementOpen, http.StatusConflict, "Another report is half recorded",
			"Another report of this route was begun and is not recorded to its end, or this one is recorded already. Import the file of the other one again first: payledger settlement list shows it.",
			"Administration only: the lines of one report of a route are recorded before another one begins, so that no two of them settle the same payment. An import that was interrupted goes on where it stopped when its file is imported again.",
		},
		{
			domain.SettlementDiffers, http.StatusConflict, "Another report",
			"The file, or the id of the report, was imported before, but not both together, or not read in the same form (--format); or the recorded lines do not add up to the sums that the report began with.",
			"Administration only: a report is named by the provider's id and by the SHA-256 of its file. The same file under another id would book its money twice, and other bytes under the same id, or the same bytes read in another form, would change what is recorded, so these are refused. <code>payledger settlement list</code> shows what was imported.",
		},
		{
			domain.PayoutDiffers, http.StatusConflict, "Another payout",
			"A payout with this reference was recorded before, with another amount, currency or report. payledger payout list shows it; give another payout its own reference.",
			"Administration only: a payout is named by the reference of its transfer at the bank, so that the same one is never booked twice. One that differs under the same reference is refused. <code>payledger payout list</code> shows what is recorded.",
		},
		{
			domain.NoConnector, http.StatusConflict, "No connector",
			"The payment's route has no connector that asks its provider: the provider's outcomes come as signals on NATS, or from the sandbox. Ask the provider itself. If the connector was taken out of the routes file, put it back.",
			"Administration only: the payment has no route yet, or its route's connector does not ask its provider. Its outcomes come as signals on NATS, or from the sandbox.",
		},
		{
			domain.BodyTooLarge, http.StatusRequestEntityTooLarge, "Body too large",
			"The body is longer than 16384 bytes. Send less.",
			"A body has at most 16 KiB. The largest sensible one, with a full description and payload, is a tenth of that.",
		},
		{
			domain.UnsupportedMediaType, http.StatusUnsupportedMediaType, "Unsupported media type",
			"Send the body as Content-Type: application/json, in UTF-8 and without Content-Encoding.",
			"Bodies are JSON: one header line <code>Content-Type: application/json</code>, optionally with <code>; charset=utf-8</code> and with nothing else. Compressed bodies are not accepted.",
		},
		{
			domain.ValidationFailed, http.StatusUnprocessableEntity, "Validation failed",
			"Some fields are not acceptable. The member errors lists each of them.",
			"The body is JSON, but some of its fields are not acceptable. The member <code>errors</code> lists all of them at once, each with a pointer to the field and a code:",
		},
		{
			domain.IdempotencyKeyReused, http.StatusUnprocessableEntity, "Idempotency key reused",
			"This Idempotency-Key was used for another request. Use a new key for a new request.",
			"The key belongs to an earlier request that asked for something else. The member <code>members</code> lists what differs; <code>endpoint</code> means that the key was used to create another kind of object. To repeat a request send the same fields; to make a new one send a new key. Keys are remembered for at least 30 days.",
		},
		{
			domain.RateLimited, http.StatusTooManyRequests, "Rate limited",
			"Too many requests. Wait as long as Retry-After says, then continue more slowly.",
			"Each project has a budget for writes and one for reads; the headers <code>RateLimit-Policy</code> and <code>RateLimit</code> give the budget and what is left of it. Failed authentication is limited by address. Wait for the seconds in <code>Retry-After</code>.",
		},
		{
			domain.InternalError, http.StatusInternalServerError, "Internal error",
			"Something went wrong on our side. If you repeat the request, use the same Idempotency-Key. Quote request_id when you report this.",
			"The fault is on our side and has been recorded under the <code>request_id</code>. A creation can be repeated safely with the same <code>Idempotency-Key</code>.",
		},
		{
			domain.Unavailable, http.StatusServiceUnavailable, "Unavailable",
			"The service cannot do this right now. Try again as Retry-After says.",
			"The service is starting, stopping, or its disk or queue is full. Wait for the seconds in <code>Retry-After</code> and repeat; a creation with the same <code>Idempotency-Key</code>.",
		},
		{
			domain.Unconfirmed, http.StatusServiceUnavailable, "Unconfirmed",
			"It is not known yet whether this was recorded. Repeat the same request: with the same Idempotency-Key it happens once.",
			"The machines of the service lost contact while they recorded this: it may have happened, or happen in a moment. Wait for the seconds in <code>Retry-After</code> and repeat the request with the same <code>Idempotency-Key</code>: you get the object that was made, or it is made now, and never twice. Without a key look first whether it is there.",
		},
	}
}

// FieldRows lists the codes of single fields, found in the errors of a
// validation_failed.
func FieldRows() []ProblemRow {
	row := func(code domain.Code, title, page string) ProblemRow {
		return ProblemRow{Code: code, Status: http.StatusUnprocessableEntity, Title: title, Page: page}
	}
	return []ProblemRow{
		row(domain.Required, "Required", "The field must be present and not null."),
		row(domain.WrongType, "Wrong type", "The value has another JSON type than the field takes."),
		row(domain.UnknownField, "Unknown field", "The body has a member that is not known here. Names are case-sensitive. <code>allowed</code> lists the known names, and <code>nearest</code> is the one that was probably meant."),
		row(domain.InvalidValue, "Invalid value", "The value is of the right type but not one of those accepted; <code>allowed</code> lists them."),
		row(domain.AmountFormat, "Amount format", "An amount is digits with at most two after a point, as a string or a number: <code>1500</code>, <code>\"1500.00\"</code>. No sign, exponent, blank, comma or leading zero."),
		row(domain.AmountPrecision, "Amount precision", "The amount has more than two digits after the point, zeros included."),
		row(domain.AmountTooSmall, "Amount too small", "The smallest amount is <code>0.01</code>."),
		row(domain.AmountTooLarge, "Amount too large", "The amount is above the largest one; <code>maximum</code> has it. The operator may have set it lower for the project."),
		row(domain.CurrencyNotSupported, "Currency not supported", "The project does not take this currency; <code>allowed</code> lists those it takes, in upper case."),
		row(domain.NoRoute, "No route", "No route collects payments of this currency or, where it is on <code>amount</code>, of this amount. Nothing was recorded. The operator's routing rules say what is collected."),
		row(domain.TooLong, "Too long", "The text has more characters (Unicode code points) than the field takes."),
		row(domain.ControlCharacter, "Control character", "The text has a control character, such as a line break, a tab or NUL."),
		row(domain.PayloadTooLarge, "Payload too large", "The payload has more than 512 bytes, white space between its values not counted: <code>limit_bytes</code>, <code>got_bytes</code>."),
		row(domain.TargetNotAllowed, "Target not allowed", "The URL cannot be called. Notifications go to <code>https</code> URLs on port 443 or 8443 of public addresses, without a user name, a password or a fragment. The detail says what is wrong with this one."),
		row(domain.RefundAmountNotAccepted, "Refund amount not accepted", "A refund always returns the whole payment and takes no amount."),
	}
}
