# must fail: tests/test_command_hooks.py::test_a_stop_hook_sends_the_model_on_once
def stop(self, event: Stop) -> None:
    """The model wants to stop. The cap on objections is the loop's."""
    if event.reason != "end_turn" or event.objections:
        return
    told = {"stop_hook_active": self.objected, "last_assistant_message": event.text}
    answers = self.call("Stop", event.agent, (), {**told, "background_tasks": [], "session_crons": []})
    if ends := halts(answers):
        event.agent.halt = "\n".join(ends)
        return
    objections = [answer.reason for answer in answers if answer.verdict == "deny"] + self.texts(answers)
    event.objections += [FEEDBACK.format(self.capped(text)) for text in objections]
    self.objected = False
