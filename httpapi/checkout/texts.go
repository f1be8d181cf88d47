package checkout

// texts are all words of the page in one language. %d stand for numbers.
type texts struct {
	To, Payee, PayUntil, Time        string // labels; To stands above the name
	Pay, Decline, Back, Again        string // actions
	Languages                        string // name of the language switch, for screen readers
	Test, TestHint                   string // sandbox: at the top, and above the buttons
	Awaiting                         string // instead of a form
	Sending, Offline                 string // shown by the script
	LeftDays, LeftHours, LeftMinutes string
	LeftMoment                       string
	States                           map[state]stateText
	Failures                         map[reason]stateText
}

// stateText is what a page says of itself.
type stateText struct {
	Heading string
	Note    string
}

func english() texts {
	const charged = "If you were charged all the same, contact the shop."
	return texts{
		To: "Payment to", Payee: "To", PayUntil: "Pay by", Time: "Time left",
		Pay: "Pay", Decline: "Decline", Back: "Back to the payment", Again: "Try again",
		Languages: "Language",
		Test:      "Test payment: no real money moves",
		TestHint:  "Choose how this test payment ends.",
		Awaiting:  "We are waiting for your payment. This page shows the result as soon as the money arrives.",
		Sending:   "Sending…",
		Offline:   "No connection. The page updates by itself once it is back.",
		LeftDays:  "%d d %d h", LeftHours: "%d h %d min", LeftMinutes: "%d min",
		LeftMoment: "less than a minute",
		States: map[state]stateText{
			preparing: {"Preparing your payment", "This takes a moment. The page continues by itself."},
			open:      {"Payment", ""},
			closed: {
				"The time to pay is over",
				"If you have paid already, the result appears here within a few minutes. Please do not pay again.",
			},
			paid:    {"Paid", "Thank you. You can close this page."},
			expired: {"Payment expired", "The time to pay has run out. To pay, return to the shop and order again. " + charged},
			failed:  {"The payment did not go through", "Return to the shop to try again. " + charged},
		},
		Failures: map[reason]stateText{
			noPayment: {"There is no such payment", "Check that the link is complete, or ask the shop for a new one."},
			badMethod: {"This page cannot do that", "Open the payment link in a browser."},
			foreignForm: {
				"This did not come from the payment page",
				"Nothing was done. Open the payment link itself and choose again.",
			},
			unknownForm: {"The form is not valid", "Nothing was done. Go back to the payment and choose again."},
			badForm:     {"The form could not be read", "Nothing was done. Go back to the payment and choose again."},
			notReady:    {"The payment is still being prepared", "Nothing was done yet. Try again in a moment."},
			undecided: {
				"The result is not known yet",
				"Try again here: your choice counts only once. The payment page shows the result.",
			},
			unavailable: {"The service is not available", "Nothing was lost. Try again in a minute."},
			broken:      {"Something went wrong on our side", "Try again in a minute. If it stays so, contact the shop."},
		},
	}
}

func russian() texts {
	const charged = "Если деньги всё же списаны, напишите в магазин."
	return texts{
		To: "Получатель", Payee: "Получатель", PayUntil: "Оплатить до", Time: "Осталось",
		Pay: "Оплатить", Decline: "Отказаться", Back: "Вернуться к платежу", Again: "Повторить",
		Languages: "Язык",
		Test:      "Тестовый платёж: деньги не списываются",
		TestHint:  "Выберите, чем закончится тестовый платёж.",
		Awaiting:  "Ждём вашу оплату. Как только деньги поступят, результат появится на этой странице.",
		Sending:   "Отправляем…",
		Offline:   "Нет связи. Страница обновится сама, когда связь вернётся.",
		LeftDays:  "%d дн. %d ч", LeftHours: "%d ч %d мин", LeftMinutes: "%d мин",
		LeftMoment: "меньше минуты",
		States: map[state]stateText{
			preparing: {"Готовим платёж", "Это займёт мгновение. Страница продолжит сама."},
			open:      {"Оплата", ""},
			closed: {
				"Время на оплату вышло",
				"Если вы уже заплатили, результат появится здесь в течение нескольких минут. Не платите второй раз.",
			},
			paid:    {"Оплачено", "Спасибо! Страницу можно закрыть."},
			expired: {"Срок оплаты истёк", "Чтобы оплатить, вернитесь в магазин и оформите заказ снова. " + charged},
			failed:  {"Платёж не прошёл", "Вернитесь в магазин и попробуйте ещё раз. " + charged},
		},
		Failures: map[reason]stateText{
			noPayment: {"Такого платежа нет", "Проверьте, что ссылка скопирована целиком, или попросите у магазина новую."},
			badMethod: {"Страница так не работает", "Откройте ссылку на оплату в браузере."},
			foreignForm: {
				"Запрос пришёл не со страницы оплаты",
				"Ничего не сделано. Откройте саму ссылку на оплату и выберите снова.",
			},
			unknownForm: {"Форма недействительна", "Ничего не сделано. Вернитесь к платежу и выберите снова."},
			badForm:     {"Форму не удалось прочитать", "Ничего не сделано. Вернитесь к платежу и выберите снова."},
			notReady:    {"Платёж ещё готовится", "Пока ничего не сделано. Попробуйте ещё раз через мгновение."},
			undecided: {
				"Результат пока неизвестен",
				"Повторите отсюда: выбор засчитается только один раз. Результат появится на странице платежа.",
			},
			unavailable: {"Сервис недоступен", "Ничего не потеряно. Попробуйте через минуту."},
			broken:      {"Что-то сломалось у нас", "Попробуйте через минуту. Если не поможет, напишите в магазин."},
		},
	}
}
