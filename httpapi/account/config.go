package account

import (
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// Session says who requests act for: a project by one of its keys.
type Session struct {
	Project string `json:"project_id"`
	KeyID   string `json:"key_id"`
}

// Config is what the account works with. Everything but Limit is needed.
//
// A request that is handed to Call or Stream names a path and a query only,
// such as /v1/payments?limit=20 or /account-api/keys, and has a context that
// comes from the request to the page. A body is JSON and declared so. The
// session's key must still be live and its project enabled: each request is
// checked anew, and answered 401 unauthorized or 403 project_disabled when it
// is not, upon which the session is over. Reads do not count against the
// project's limit, as pages have a Limit of their own; all other requests do.
type Config struct {
	// Call answers a request. The body is in memory, and closing it does
	// nothing. The error is that the answer broke off half way; whatever else
	// went wrong is a response of status 400 or more with a problem document,
	// see ReadProblem. Answers are at most MaxAnswer bytes.
	Call func(as Session, r *http.Request) (*http.Response, error)

	// Stream writes the answer to w as it comes: for CSV and feeds of events,
	// which may be long or endless. When the request is refused nothing was
	// written and Stream answers the refusal, else nil. An answer that breaks
	// off half way panics with http.ErrAbortHandler, so that nobody takes the
	// part for the whole.
	Stream func(w http.ResponseWriter, as Session, r *http.Request) *http.Response

	// SignIn checks credentials as the API does, and counts failures against
	// the same limit per address. r is the request to the page. The error is a
	// *Problem: 401 unauthorized, 403 project_disabled, 429 rate_limited with
	// RetryAfter, 503 unavailable.
	SignIn func(r *http.Request, project, key string) (Session, error)

	// Limit decides whether a request for a page may pass, and if not, how long
	// to wait. It is called with project "" to count by address and, for a
	// signed-in request, again with its project. nil: all pass. Files that pages
	// load are not counted.
	Limit func(r *http.Request, project string) (wait time.Duration, ok bool)

	File      *File            // where sessions are kept
	Now       func() time.Time // the clock
	PublicURL string           // where the world reaches this program, without a trailing slash
	Webhooks  bool             // there are routes for webhook endpoints
	Log       zerolog.Logger
}

// MaxAnswer is the longest answer to Call, in bytes.
const MaxAnswer = 8 << 20
