package account

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/httpapi/account/frame"
	"payledger/httpapi/edge"
)

// proofFile is the downloadable proof that an event is in the log: the event as it is stored, the
// checkpoint signed by the log, and the hashes that lead from one to the other (RFC 6962).
type proofFile struct {
	Position   uint64         `json:"position"`
	Event      jsontext.Value `json:"event"`
	Inclusion  any            `json:"inclusion"`
	Checkpoint string         `json:"checkpoint"`
}

// proof answers the file for one event of a payment.
func (v *visit) proof() error {
	position, err := strconv.ParseUint(v.Query("position"), 10, 63)
	if err != nil || position == 0 {
		return &frame.Failure{Status: http.StatusNotFound, Why: "page"}
	}
	event, err := v.eventAt(position)
	if err != nil {
		return err
	}
	checkpoint, err := v.API.Checkpoint(v.Ctx(), v.Caller)
	if err != nil {
		return err
	}
	size, err := sizeOf(checkpoint)
	if err != nil {
		return err
	}
	inclusion, err := v.API.Inclusion(v.Ctx(), v.Caller, position, size)
	if err != nil {
		return err
	}
	text, err := json.Marshal(proofFile{position, event, inclusion, string(checkpoint)}, edge.AsWritten())
	if err != nil {
		return err
	}
	if err := v.SaveSession(); err != nil {
		return err
	}
	v.X.Header().Set("Content-Disposition", `attachment; filename="proof-`+strconv.FormatUint(position, 10)+`.json"`)
	v.X.ReplyBytes(http.StatusOK, "application/json", append(text, '\n'))
	return nil
}

// eventAt finds the event of the payment at a position.
func (v *visit) eventAt(position uint64) (jsontext.Value, error) {
	for q := (url.Values{}); ; {
		page, err := v.API.PaymentEvents(v.Ctx(), v.Caller, v.Vars["id"], q)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Data {
			if e.Position == position {
				return e.Event, nil
			}
		}
		if page.NextCursor == nil {
			return nil, &frame.Failure{Status: http.StatusNotFound, Why: "page"}
		}
		q.Set("cursor", *page.NextCursor)
	}
}

// sizeOf is the size of the log in a checkpoint, its second line.
func sizeOf(checkpoint []byte) (uint64, error) {
	lines := bytes.SplitN(checkpoint, []byte("\n"), 3)
	if len(lines) < 3 {
		return 0, errors.New("the checkpoint has no size")
	}
	return strconv.ParseUint(string(lines[1]), 10, 63)
}
