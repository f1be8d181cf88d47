package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"payledger/domain"
	"payledger/domain/projects"
)

// hookSender stands in for the sender of notifications. The test sets its
// deliveries, in memory.
type hookSender struct {
	s *server

	mu         sync.Mutex
	deliveries []domain.DeliveryObject   // oldest first
	look       int                       // at so many for a page at most; 0: all
	newest     map[domain.ID]domain.ID   // by payment: the event that can be resent
	failing    map[string]domain.Instant // by endpoint: since when
	asked      []string
	fail       error // of everything that can fail for reasons of its own
}

// ask records a call and returns the error to give.
func (h *hookSender) ask(format string, args ...any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, fmt.Sprintf(format, args...))
	return h.fail
}

func (h *hookSender) Secret(endpoint string, s projects.Secret) (string, error) {
	if s.KeyVersion < 1 || s.KeyVersion > h.KeyVersion() || s.Generation < 1 {
		return "", errors.New("no such key")
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", endpoint, s.KeyVersion, s.Generation))
	return "whsec_" + base64.StdEncoding.EncodeToString(sum[:]), nil
}

func (h *hookSender) KeyVersion() int { return 2 }

func (h *hookSender) CheckTarget(url string) error {
	if !strings.HasPrefix(url, "https://") {
		return errors.New("the URL must begin with https://")
	}
	return nil
}

// add records a delivery as the sender would.
func (h *hookSender) add(d domain.DeliveryObject) domain.DeliveryObject {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.EventID == (domain.ID{}) {
		d.EventID = h.s.cfg.IDs.Next()
	}
	d.CreatedAt = domain.InstantOf(h.s.clock.Now())
	h.deliveries = append(h.deliveries, d)
	return d
}

func (h *hookSender) Test(_ context.Context, project, endpoint string) (domain.DeliveryObject, error) {
	if err := h.ask("test %s %s", project, endpoint); err != nil {
		return domain.DeliveryObject{}, err
	}
	next := domain.InstantOf(h.s.clock.Now())
	return h.add(domain.DeliveryObject{EndpointID: endpoint, Type: domain.KindEndpointTest, State: domain.DeliveryPending, NextAttemptAt: &next}), nil
}

func (h *hookSender) Resend(_ context.Context, project, endpoint string, event domain.ID) (domain.DeliveryObject, error) {
	if err := h.ask("resend %s %s %s", project, endpoint, event); err != nil {
		return domain.DeliveryObject{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.deliveries {
		d := &h.deliveries[i]
		if d.EndpointID != endpoint || d.EventID != event {
			continue
		}
		if newest := h.newest[*d.PaymentID]; newest != event {
			return *d, &domain.Refusal{Code: domain.DeliverySupersededCode, EventID: newest}
		}
		d.State = domain.DeliveryPending
		return *d, nil
	}
	return domain.DeliveryObject{}, &domain.Refusal{Code: domain.DeliveryNotFound}
}

func (h *hookSender) RecoverSince(_ context.Context, project, endpoint string, since domain.Instant) (int, error) {
	return 7, h.ask("recover %s %s %s", project, endpoint, since)
}

func (h *hookSender) Deliveries(_ context.Context, f domain.DeliveryFilter) (domain.DeliveryPage, error) {
	page := domain.DeliveryPage{}
	if err := h.ask("deliveries"); err != nil {
		return page, err
	}
	if f.Project == "" {
		return page, errors.New("deliveries of whichever project")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	at := len(h.deliveries)
	if f.After != "" {
		var err error
		if at, err = strconv.Atoi(f.After); err != nil {
			return page, &domain.Refusal{Code: domain.InvalidCursor}
		}
	}
	for i, d := range slices.Backward(h.deliveries[:at]) {
		if h.look > 0 && at-i > h.look {
			page.After = strconv.Itoa(i + 1)
			break
		}
		if f.Endpoint != "" && d.EndpointID != f.Endpoint || f.Event != (domain.ID{}) && d.EventID != f.Event ||
			f.Payment != (domain.ID{}) && (d.PaymentID == nil || *d.PaymentID != f.Payment) || f.State != "" && d.State != f.State {
			continue
		}
		if len(page.Deliveries) == f.Limit {
			page.After = strconv.Itoa(i + 1)
			break
		}
		page.Deliveries = append(page.Deliveries, d)
	}
	return page, nil
}

func (h *hookSender) Health(_ context.Context, endpoint string) (domain.EndpointHealth, error) {
	if err := h.ask("health %s", endpoint); err != nil {
		return domain.EndpointHealth{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var health domain.EndpointHealth
	for _, d := range h.deliveries {
		switch {
		case d.EndpointID != endpoint:
		case d.State == domain.DeliveryPending:
			health.Pending++
		case d.State == domain.DeliveryGivenUp:
			health.Undelivered++
		}
	}
	if since, ok := h.failing[endpoint]; ok {
		health.FailingSince = &since
		health.LastFailure = &domain.AttemptObject{At: since, Status: 503, Error: "status", DurationMS: 12, Answer: "<b>busy</b>"}
	}
	return health, nil
}

// calls are the sender's calls since the last time, except lookups.
func (h *hookSender) calls() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.asked {
		if c != "deliveries" && !strings.HasPrefix(c, "health") {
			all = append(all, c)
		}
	}
	h.asked = nil
	return all
}
