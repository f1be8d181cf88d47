package account

import "payledger/httpapi/merchant"

// proof answers the payment's receipt.
func (v *visit) proof() error {
	text, err := v.API.Receipt(v.Ctx(), v.Caller, v.Vars["id"])
	if err == nil {
		err = v.SaveSession()
	}
	return merchant.ReplyReceipt(v.X, v.Vars["id"], text, err)
}
