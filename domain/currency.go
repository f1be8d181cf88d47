package domain

import "strings"

// Currency is an ISO 4217 code in upper case.
type Currency string

// DefaultCurrency is used where a payment names none (seed 4.1).
const DefaultCurrency Currency = "RUB"

// twoMinorDigits lists the active national currencies of ISO 4217 with two
// minor digits, those "D.DD" can carry.
const twoMinorDigits = " AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD" +
	" CAD CDF CHF CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD" +
	" HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK" +
	" MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB" +
	" SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD" +
	" UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG "

// TwoMinorDigits reports whether c is an ISO 4217 currency whose amounts can
// be written "D.DD"; only those can be enabled.
func (c Currency) TwoMinorDigits() bool {
	return len(c) == 3 && !strings.Contains(string(c), " ") && strings.Contains(twoMinorDigits, " "+string(c)+" ")
}

// wellFormed reports whether c has the form of an ISO 4217 code. Money can
// come in a currency that no payment is made in.
func (c Currency) wellFormed() bool {
	return len(c) == 3 && strings.Trim(string(c), "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
