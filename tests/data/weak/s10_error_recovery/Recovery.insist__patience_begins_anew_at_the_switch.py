# must fail: tests/test_recovery.py::test_patience_does_not_begin_anew_at_the_switch
def insist(self, ask: Callable[[dict[str, Any]], Reply], request: dict[str, Any]) -> Reply:
    """The first ladder: trouble that passes is waited for, and the same request sent again. Raises ModelError."""
    failures, overloads, began = 0, 0, None
    while True:
        try:
            return ask(self.for_model(request))
        except ModelError as error:
            if not passes(error):
                raise
            began = self.clock() if began is None else began
            failures += 1
            overloads = overloads + 1 if is_overload(error) else 0
            shown = ask is self.ask and has_begun(error)  # words of it stand on the screen
            if overloads >= self.overloads and self.switch(request, shown):
                failures, overloads, began = 0, 0, None
                continue
            seconds = self.wait_after(error, failures)
            if failures > self.retries or self.clock() - began + seconds > self.patience:
                raise
            if shown:
                self.agent.show("discard", reason=in_words(error))
            else:
                self.agent.show("notice", text=f"  [{in_words(error)}: asked again {spoken(seconds)}]")
            self.pause(seconds)
            if self.agent.halt:
                raise
