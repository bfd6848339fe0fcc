//! A conversation that outlives the process, and what one model call is sent of it.

use scrollback::{Entry, Store, Wire};

#[tokio::main(flavor = "current_thread")]
async fn main() -> scrollback::Result<()> {
    let store = Store::open("sqlite:chat.db").await?;
    let mut chat = store.conversation("anna").await?;
    chat.append(Entry::user("What is 6 x 7?")).await?;

    let view = chat.view("sliding_window(20)")?;
    let request = view.request(Wire::Anthropic);
    println!("{request}"); // POST this with a model and max_tokens added; then record what came back:

    chat.append(Entry::assistant("42")).await?;
    println!("{} entries are recorded", chat.record().len());
    Ok(())
}
