package domain

// PaymentObject is a payment as merchants see it (seed 2.1): exactly these
// members, in this order.
type PaymentObject struct {
	ID           ID            `json:"id"`
	Status       PaymentStatus `json:"status"`
	Amount       Amount        `json:"amount"`
	Currency     Currency      `json:"currency"`
	Description  *string       `json:"description"`
	Payload      JSON          `json:"payload"`
	Instructions *Instructions `json:"instructions,omitempty"` // only in the response to the creation
	CreatedAt    Instant       `json:"created_at"`
}

// Instructions tell the merchant where to send the customer.
type Instructions struct {
	Type string `json:"type"` // "link"
	URL  string `json:"url"`
}

// RefundObject is a refund as merchants see it (seed 2.2).
type RefundObject struct {
	ID        ID           `json:"id"`
	PaymentID ID           `json:"payment_id"`
	Status    RefundStatus `json:"status"`
	Amount    Amount       `json:"amount"`
	Currency  Currency     `json:"currency"`
	CreatedAt Instant      `json:"created_at"`
}

// Object is the payment as merchants see it, without instructions.
func (p Payment) Object() PaymentObject {
	return PaymentObject{
		ID: p.ID, Status: p.Status, Amount: p.Amount, Currency: p.Currency,
		Description: p.Description, Payload: p.Payload, CreatedAt: p.CreatedAt,
	}
}

// Object is the refund as merchants see it.
func (r Refund) Object(payment ID) RefundObject {
	return RefundObject{
		ID: r.ID, PaymentID: payment, Status: r.Status, Amount: r.Amount, Currency: r.Currency, CreatedAt: r.CreatedAt,
	}
}
