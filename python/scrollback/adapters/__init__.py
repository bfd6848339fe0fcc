"""One file for each framework: a curated view for each model call, and the framework's own state as it was.

| framework | module |
|---|---|
| OpenAI and Anthropic clients | `scrollback.adapters.clients` |
| OpenAI Agents SDK | `scrollback.adapters.openai_agents` |
| LangChain and LangGraph | `scrollback.adapters.langchain` |
| Pydantic AI | `scrollback.adapters.pydantic_ai` |
| Strands | `scrollback.adapters.strands` |
| Microsoft Agent Framework | `scrollback.adapters.agent_framework` |
| LlamaIndex | `scrollback.adapters.llama_index` |
| Google ADK | `scrollback.adapters.adk` |
"""
