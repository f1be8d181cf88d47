package adaptertest

import (
	"crypto/rand"
	"fmt"
	"time"

	"payledger/domain"
	"payledger/notifier/connector/adapter/adaptertest/reference"
	"payledger/notifier/connector/connectortest"
)

// Pay lets the customer pay.
func (p *Provider) Pay(ref string) bool { return p.end(ref, "paid", "") }

// Decline closes an attempt.
func (p *Provider) Decline(ref string) bool { return p.end(ref, "closed", "card_declined") }

// Expire closes an attempt.
func (p *Provider) Expire(ref string) bool { return p.end(ref, "closed", "expired") }

func (p *Provider) end(ref, phase, reason string) bool {
	return p.adapter.Change(ref, func(at *reference.State) bool { return at.End(phase, reason) })
}

// RefundByHand returns an attempt's money at once.
func (p *Provider) RefundByHand(ref string) bool {
	done := false
	p.adapter.Change(ref, func(at *reference.State) bool {
		for _, r := range at.Refunds {
			if r.Phase != "closed" {
				return false
			}
		}
		if done = at.Phase == "paid"; done {
			at.Refunds = append(at.Refunds, &reference.State{Reference: "by-hand-" + ref, Phase: "paid", Amount: at.Amount, Currency: at.Currency})
		}
		return false
	})
	if done {
		p.notify(ref, true)
	}
	return done
}

// SettleRefund ends a refund that payledger asked for.
func (p *Provider) SettleRefund(id domain.ID, succeeded bool) bool {
	settled := ""
	p.adapter.Each(func(at *reference.State) {
		for _, r := range at.Refunds {
			switch {
			case r.ID != id.String() || r.Phase != "open":
			case succeeded:
				r.Phase, settled = "paid", at.Reference
			default:
				r.Phase, r.Reason, settled = "closed", "account_closed", at.Reference
			}
		}
	})
	if settled != "" {
		p.notify(settled, true)
	}
	return settled != ""
}

// TakeBack is the bank that does not take a refund's money.
func (p *Provider) TakeBack(ref string) bool {
	done := false
	p.adapter.Change(ref, func(at *reference.State) bool {
		done = at.TakeBack("account_closed") != nil
		return false
	})
	if done {
		p.notify(ref, true)
	}
	return done
}

// Dispute is the customer who disputes the attempt's money.
func (p *Provider) Dispute(ref string) bool {
	return p.disputes(ref, func(at *reference.State) bool { return at.Dispute() })
}

// EndDispute is the bank that decides on the dispute.
func (p *Provider) EndDispute(ref string, won bool) bool {
	status := "lost"
	if won {
		status = "won"
	}
	return p.disputes(ref, func(at *reference.State) bool { return at.EndDispute(status) })
}

func (p *Provider) disputes(ref string, change func(*reference.State) bool) (done bool) {
	p.adapter.Change(ref, func(at *reference.State) bool {
		done = change(at)
		return false
	})
	if done {
		p.send(fmt.Appendf(nil, `{"reference":%q,"disputes":true}`, ref))
	}
	return done
}

// Attempts lists a payment's attempts.
func (p *Provider) Attempts(payment domain.ID) []string {
	var refs []string
	p.adapter.Each(func(at *reference.State) {
		if at.Asked.Attempt.Payment == payment.String() {
			refs = append(refs, at.Reference)
		}
	})
	return refs
}

// ForgetKeys ends the stored errors; the adapter keeps its keys forever, as every adapter has to.
func (p *Provider) ForgetKeys() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.spent)
}

// WrongAmount makes new attempts collect 1.23.
func (p *Provider) WrongAmount() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = true
}

func (p *Provider) notify(ref string, refunds bool) {
	p.send(fmt.Appendf(nil, `{"reference":%q,"refunds":%t}`, ref, refunds))
}

func (p *Provider) send(body []byte) {
	n := p.Signed(body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, n)
}

// Sent takes the notifications.
func (p *Provider) Sent() []connectortest.Notification {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.sent
	p.sent = nil
	return sent
}

// Forged has the signature of another notification.
func (p *Provider) Forged(ref string) connectortest.Notification {
	n := p.Signed([]byte(`{"reference":"another"}`))
	n.Body = fmt.Appendf(nil, `{"reference":%q}`, ref)
	return n
}

// Signed signs any body.
func (p *Provider) Signed(body []byte) connectortest.Notification {
	header, err := p.Keys.Sign("msg_"+rand.Text(), time.Now(), body)
	if err != nil {
		panic(err)
	}
	header.Set("Content-Type", "application/json")
	return connectortest.Notification{Header: header, Body: body}
}

// Foreign is a test of the way, which is about nothing.
func (p *Provider) Foreign() []connectortest.Notification {
	return []connectortest.Notification{p.Signed([]byte(`{"test":true}`))}
}

// Collected is the money of the attempts that are paid.
func (p *Provider) Collected() []connectortest.Money {
	var all []connectortest.Money
	p.adapter.Each(func(at *reference.State) {
		if at.Phase == "paid" {
			all = append(all, money(at, at))
		}
	})
	return all
}

// Returned is the money of the refunds that are paid.
func (p *Provider) Returned() []connectortest.Money {
	var all []connectortest.Money
	p.adapter.Each(func(at *reference.State) {
		for _, r := range at.Refunds {
			if r.Phase == "paid" {
				all = append(all, money(at, r))
			}
		}
	})
	return all
}

func money(at, moved *reference.State) connectortest.Money {
	payment, _ := domain.ParseID(at.Asked.Attempt.Payment)
	amount, err := domain.ParseAmount(moved.Amount)
	if err != nil {
		panic(err)
	}
	return connectortest.Money{Reference: at.Reference, Payment: payment, Amount: amount, Currency: domain.Currency(moved.Currency)}
}

// Secrets is the Secret.
func (p *Provider) Secrets() []string { return []string{Secret} }
