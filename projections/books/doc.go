// Package books keeps the double entry: what each event means for the accounts
// of its project (domain.Postings), with the balance of the account after it.
// The journal holds every posting, a balance is that of an account's newest
// posting, and a statement is a walk through the journal.
package books
