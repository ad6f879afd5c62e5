package web_test

import "testing"

func TestPages_SignInAndSettings(t *testing.T) {
	b, _ := browse(t)
	b.open("/")
	b.see("Sign in", "Email", "Password")
	b.shoot("sign-in")
	b.fill("Email", "ada@acme.test")
	b.fill("Password", "wrong")
	b.press("Sign in")
	b.see("The email or the password is wrong")
	b.shoot("sign-in-wrong")
	b.signIn("ada@acme.test")
	b.see("Hello, Ada", "Acme Inc", "admin")
	b.shoot("home")
	b.press("Password")
	b.see("Current password")
	b.shoot("password")
	b.open("/settings/sessions")
	b.see("Chrome on Linux", "this one")
	b.shoot("sessions")
	b.open("/nothing/here")
	b.see("There is nothing here", "404")
	b.shoot("not-found")
	b.press("Go home")
	b.press("Sign out")
	b.see("You have signed out")
}
