package account

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// proofFile is what is handed out as the proof that an event is in the log:
// the event as it is stored, the checkpoint signed by the log, and the hashes
// that lead from one to the other (RFC 6962).
type proofFile struct {
	Position   uint64         `json:"position"`
	Event      jsontext.Value `json:"event"`
	Inclusion  jsontext.Value `json:"inclusion"`
	Checkpoint string         `json:"checkpoint"`
}

// proof answers the file for one event of a payment.
func (v *visit) proof() error {
	position, err := v.positionOf()
	if err != nil {
		return err
	}
	file := proofFile{Position: position}
	q := url.Values{}
	for file.Event == nil {
		events, err := get[listOf[occurrence]](v, "/v1/payments/"+v.vars["id"]+"/events", q)
		if err != nil {
			return err
		}
		for _, o := range events.Data {
			if o.Position == position {
				file.Event = o.Raw
			}
		}
		if file.Event == nil && events.Next == nil {
			return &failure{status: http.StatusNotFound, why: "page"}
		}
		if events.Next != nil {
			q.Set("cursor", *events.Next)
		}
	}
	checkpoint, err := v.ask(http.MethodGet, "/v1/log/checkpoint", nil, nil)
	if err != nil {
		return err
	}
	file.Checkpoint = string(checkpoint)
	lines := strings.SplitN(file.Checkpoint, "\n", 3) // origin, size, …
	size := lines[min(1, len(lines)-1)]
	file.Inclusion, err = v.ask(http.MethodGet, "/v1/log/proof/inclusion",
		url.Values{"position": {strconv.FormatUint(position, 10)}, "size": {size}}, nil)
	if err != nil {
		return err
	}
	text, err := json.Marshal(file, jsontext.PreserveRawStrings(true), jsontext.SpaceAfterColon(false))
	if err != nil {
		return err
	}
	if err := v.saveSession(); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	v.w.Header().Set("Content-Disposition", `attachment; filename="proof-`+strconv.FormatUint(position, 10)+`.json"`)
	v.w.WriteHeader(http.StatusOK)
	_, _ = v.w.Write(append(text, '\n')) // the reader may have left
	return nil
}
