import { AttentionPage } from "./attention";
import { CalendarPage } from "./calendar";
import { SessionPage } from "./session";
import { SessionsPage } from "./sessions";
import { TemplatePage, TemplatesPage } from "./templates";

// TimeboxedPage is a page of sessions: one piece of code that is fetched when the first of them
// is opened.
export function TimeboxedPage({ first, rest }: { first: "sessions" | "calendar" | "attention" | "templates"; rest: string[] }) {
  const [name = ""] = rest;
  if (first === "calendar") return <CalendarPage />;
  if (first === "attention") return <AttentionPage />;
  if (first === "templates") return name ? <TemplatePage key={name} name={name} /> : <TemplatesPage />;
  return name ? <SessionPage key={name} name={name} /> : <SessionsPage />;
}
