//! A store with several conversations: what was said is found again, and what other programs wrote meanwhile is read.

use scrollback::{Entry, Store, Wire};

#[tokio::main(flavor = "current_thread")]
async fn main() -> scrollback::Result<()> {
    let store = Store::open("sqlite::memory:").await?; // or sqlite:FILE, or postgres://…
    let mut chat = store.conversation("anna").await?;
    // A provider's messages, as they came:
    let messages = r#"[{"role": "user", "content": "Is my parcel in Oslo?"}]"#;
    chat.append_messages(messages, Some(Wire::OpenaiChat)).await?;
    chat.append(Entry::assistant("It arrives tomorrow.")).await?;

    for hit in store.search("parcel", None, 10).await?.hits {
        println!("position {}: {}", hit.position, hit.snippet);
    }
    chat.refresh().await?; // what other programs appended meanwhile
    println!("{} entries, {}", chat.record().len(), chat.status().await?.0);
    Ok(())
}
